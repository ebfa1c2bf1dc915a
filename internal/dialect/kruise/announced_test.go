// SPDX-License-Identifier: Apache-2.0

package kruise_test

import (
	"encoding/base64"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/internal/rollout"
)

// announced has the label of the revision new, and the annotations that OpenKruise sets at 12:00:05.
func announced(grace string) func(p *corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Labels["controller-revision-hash"] = "new"
		p.Annotations[api.InPlaceUpdateState] = `{"revision":"new","updateTimestamp":"2026-01-01T12:00:05Z","lastContainerStatuses":null,"updateImages":true}`
		p.Annotations[api.InPlaceUpdateGrace] = grace
	}
}

func next(more string) func(p *corev1.Pod) {
	return annotated(api.InPlaceUpdateState, `{"revision":"new","updateTimestamp":"2026-01-01T12:00:05Z",`+more+`}`)
}

func TestWhatIsAnnounced(t *testing.T) {
	due := rollout.Time(noon.Add(15 * time.Second).UnixNano())
	open := pod(announced(`{"revision":"new","containerImages":{"a":"a:2"},"graceSeconds":10}`))
	for _, c := range []struct {
		name  string
		pod   *corev1.Pod
		want  rollout.InPlace
		due   rollout.Time
		stuck rollout.Detail
	}{
		{"a grace period", pod(marked(0), announced(`{"revision":"new","containerImages":{"a":"a:2"},"graceSeconds":10}`)), rollout.InPlaceAnnounced, due, 0},
		{"the revision by its whole name", pod(marked(0), announced(`{"revision":"agent-new","containerImages":{"a":"a:2"},"graceSeconds":10}`)), rollout.InPlaceAnnounced, due, 0},
		{"the gate is open", open, rollout.InPlaceAnnounced, due, 0},
		{"of another revision than the pod's", pod(marked(0), announced(`{"revision":"older","containerImages":{"a":"a:2"},"graceSeconds":10}`)), rollout.InPlaceArrived, 0, 0},
		{"not readable", pod(marked(0), announced(`{`)), rollout.InPlaceAnnounced, 0, rollout.DetailUnfinished},
		{"an empty patch", pod(marked(0), announced(`{"revision":"new","metaDataPatch":"e30="}`)), rollout.InPlaceAnnounced, rollout.Time(noon.Add(5 * time.Second).UnixNano()), 0},
		{"a patch that is not readable", pod(marked(0), announced(`{"revision":"new","metaDataPatch":"`+base64.StdEncoding.EncodeToString([]byte("[]"))+`"}`)),
			rollout.InPlaceAnnounced, rollout.Time(noon.Add(5 * time.Second).UnixNano()), rollout.DetailUnfinished},
		{"an environment variable, in a container that is made anew", pod(marked(0), announced(`{"revision":"new","containerImages":{"a":"a:2"},"containerRefMetadata":{"a":{"labels":{"x":"y"}}},"graceSeconds":10}`)),
			rollout.InPlaceAnnounced, due, 0},
		{"an environment variable, in a container that stays", pod(marked(0), announced(`{"revision":"new","containerRefMetadata":{"a":{"labels":{"x":"y"}}},"graceSeconds":10}`)),
			rollout.InPlaceAnnounced, due, rollout.DetailUnfinished},
		{"without the gate", pod(announced(`{"revision":"new","graceSeconds":10}`), func(p *corev1.Pod) { p.Spec.ReadinessGates = nil }), rollout.InPlaceNone, 0, 0},

		{"a next batch", pod(marked(0), next(`"nextContainerImages":{"a":"a:2"}`)), rollout.InPlaceAnnounced, 0, 0},
		{"a next batch of resources only", pod(marked(0), next(`"nextContainerResources":{"a":{"limits":{"cpu":"2"}}}`)), rollout.InPlaceAnnounced, 0, 0},
		{"a next batch, the one before has not arrived", pod(marked(0), next(`"nextContainerImages":{"a":"a:2"},"lastContainerStatuses":{"a":{"imageID":"sha-1"}}`)), rollout.InPlacePatched, 0, 0},
		{"a next batch, the one before is not ready", pod(marked(0), next(`"nextContainerImages":{"a":"a:2"},"preCheckBeforeNext":{"containersRequiredReady":["a"]}`)), rollout.InPlacePatched, 0, 0},
		{"a next batch, the one before is ready", pod(marked(0), next(`"nextContainerImages":{"a":"a:2"},"preCheckBeforeNext":{"containersRequiredReady":["a"]}`),
			status(func(s *corev1.ContainerStatus) { s.Ready = true })), rollout.InPlaceAnnounced, 0, 0},
	} {
		f := kruise.Facts(c.pod)
		if f.InPlace == rollout.InPlaceAnnounced && (f.MarkedAt == 0) != (f.Due == 0) {
			t.Errorf("%s: due %d, and its grace period began at %d", c.name, f.Due, f.MarkedAt)
		}
		if f.InPlace != c.want || f.Due != c.due || f.Stuck != c.stuck {
			t.Errorf("%s: %s, due %d, stuck %q; want %s, %d, %q", c.name, f.InPlace, f.Due, f.Stuck, c.want, c.due, c.stuck)
		}
	}
}

func TestResume(t *testing.T) {
	patch := base64.StdEncoding.EncodeToString([]byte(`{"metadata":{"labels":{"tier":"two","gone":null},"annotations":{"note":"two"}}}`))
	p := pod(announced(`{"revision":"new","containerImages":{"a":"a:2"},"containerRefMetadata":{"a":{"labels":{"read":"two"}}},"containerResources":{"a":{"limits":{"cpu":"2"}}},"metaDataPatch":"`+patch+`","graceSeconds":10}`),
		func(p *corev1.Pod) { p.Labels["gone"], p.Labels["stays"] = "x", "x" })
	edits := kruise.Edits{}.Resume(p, after(20))
	if len(edits) != 3 || edits[0].Of != dialect.Status || edits[1].Of != dialect.Resize || edits[2].Of != dialect.Whole {
		t.Fatalf("edits %v, want a mark, the resources, and the change", edits)
	}
	p = apply(t, p, edits)
	if want := map[string]string{"controller-revision-hash": "new", "tier": "two", "read": "two", "stays": "x"}; !maps.Equal(p.Labels, want) {
		t.Errorf("labels %v, want %v", p.Labels, want)
	}
	if _, left := p.Annotations[api.InPlaceUpdateGrace]; left || p.Annotations["note"] != "two" || p.Spec.Containers[0].Image != "a:2" {
		t.Errorf("annotations %v, image %s", p.Annotations, p.Spec.Containers[0].Image)
	}
	if s := stateOf(t, p); s.Revision != "new" || !s.UpdateImages || !s.UpdateResources || s.LastContainerStatuses["a"].ContainerID != "c-1" {
		t.Errorf("state %+v", s)
	}
	inPlace(t, p, rollout.InPlacePatched)
	if edits := (kruise.Edits{}).Resume(p, after(30)); len(edits) != 0 {
		t.Errorf("what was announced is done twice: %s", edits[0].Patch)
	}
}
