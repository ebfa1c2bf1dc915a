// SPDX-License-Identifier: Apache-2.0

package kruise_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/internal/rollout"
)

const (
	earlier = "2026-01-01T11:00:00Z"
	later   = "2026-01-01T12:00:00Z"
)

func TestRestartsInPlace(t *testing.T) {
	restarts, recreates := rollout.Change{InPlace: true, Restart: true}, rollout.Change{Why: rollout.DetailRestart}
	const with = `{metadata: {annotations: {ANNOTATIONS}}, spec: {
		initContainers: [{name: setup, image: "s:1", lifecycle: {preStop: {sleep: {seconds: 1}}}}, {name: mesh, image: "m:1", restartPolicy: Always}],
		containers: [{name: a, image: "a:1"}, {name: b, image: "b:1", lifecycle: {preStop: {sleep: {seconds: 1}}}}, {name: c, image: "c:1", restartPolicy: OnFailure}]}}`
	at := func(when, containers string) string {
		var texts []string
		if when != "" {
			texts = append(texts, "everynode.dev/restarted-at: '"+when+"'")
		}
		if containers != "" {
			texts = append(texts, "everynode.dev/restarted-containers: '"+containers+"'")
		}
		return strings.ReplaceAll(with, "ANNOTATIONS", strings.Join(texts, ", "))
	}
	for name, c := range map[string]struct {
		from, to string
		want     rollout.Change
	}{
		"first request":                         {at("", ""), at(later, "a"), restarts},
		"later request":                         {at(earlier, "a"), at(later, "a"), restarts},
		"later request in another zone":         {at(earlier, "a"), at("2026-01-01T12:30:00+01:00", "a"), restarts},
		"same request":                          {at(later, "a"), at(later, "a"), rollout.Change{InPlace: true}},
		"same request, other containers":        {at(later, "a"), at(later, "b"), rollout.Change{InPlace: true}},
		"undone":                                {at(later, "a"), at("", ""), rollout.Change{InPlace: true}},
		"undone to an earlier request":          {at(later, "a"), at(earlier, "a"), rollout.Change{InPlace: true}},
		"text that is no time":                  {at(later, "a"), at("again", "a"), restarts},
		"sidecar":                               {at("", ""), at(later, "mesh"), restarts},
		"several":                               {at("", ""), at(later, "a, mesh"), restarts},
		"init container, which has ended":       {at("", ""), at(later, "setup"), rollout.Change{InPlace: true}},
		"container that is not there":           {at("", ""), at(later, "other"), rollout.Change{InPlace: true}},
		"container with a hook":                 {at("", ""), at(later, "b"), recreates},
		"container with its own restart policy": {at("", ""), at(later, "c"), recreates},
		"all of them":                           {at("", ""), at(later, ""), recreates},
		"all of them, with another difference":  {at("", ""), strings.ReplaceAll(at(later, ""), "a:1", "a:1', tty: 'true"), rollout.Change{Why: rollout.DetailRestart}},
	} {
		if got := kruise.InPlace(decode(t, c.from), decode(t, c.to)); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
		if got := kruise.InPlaceWithResize(decode(t, c.from), decode(t, c.to)); got != c.want {
			t.Errorf("%s, with changes of resources: %+v, want %+v", name, got, c.want)
		}
	}
}

// restart is a change that restarts all containers, and gives container a an image.
func restart(t *testing.T, from, to, when, hash string) dialect.Change {
	t.Helper()
	c := images(t, from, to, hash)
	c.To["metadata"] = map[string]any{"annotations": map[string]any{"everynode.dev/restarted-at": when}}
	return c
}

// started is the kubelet starting another container of the same image.
func started(p *corev1.Pod, id string, at time.Time) *corev1.Pod {
	return with(p, func(p *corev1.Pod) {
		s := &p.Status.ContainerStatuses[0]
		s.ContainerID, s.State = id, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(at)}}
	})
}

// TestARestartIsOnePatch: it names the container that is to end, no condition is written, and the change has arrived with the next container.
func TestARestartIsOnePatch(t *testing.T) {
	p := pod(gateless)
	edits := kruise.Edits{}.Patch(p, restart(t, "a:1", "a:1", later, "new"), after(1))
	if len(edits) != 1 || edits[0].Of != dialect.Whole || strings.Contains(string(edits[0].Patch), `"spec"`) {
		t.Fatalf("%d edits, want one patch of the metadata: %s", len(edits), edits[0].Patch)
	}
	p = apply(t, p, edits)
	if state := stateOf(t, p); !maps.Equal(state.Restarts, map[string]string{"a": "c-1"}) || state.UpdateImages || len(state.LastContainerStatuses) != 0 {
		t.Errorf("the state is %+v", state)
	}
	if p.Annotations["everynode.dev/restarted-at"] != later || p.Labels["controller-revision-hash"] != "new" {
		t.Errorf("annotations %v, labels %v", p.Annotations, p.Labels)
	}
	open(t, p, rollout.InPlacePatched)
	if again := (kruise.Edits{}).Patch(p, restart(t, "a:1", "a:1", later, "new"), after(9)); len(again) != 0 {
		t.Errorf("it is patched again: %s", again[0].Patch)
	}
	if n := kruise.Facts(p).Recreates; n != 1 {
		t.Errorf("it restarts %d containers, want one", n)
	}
	open(t, with(p, func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State.Running = nil }), rollout.InPlacePatched)
	p = started(p, "c-2", after(5))
	open(t, p, rollout.InPlaceNone)
	if at := kruise.Facts(p).ReadyAfter; at != rollout.Time(after(5).UnixNano()) {
		t.Errorf("it can have become ready at %v, want the start of the container", at)
	}
}

// TestTheTimeForARestart: it is that of the containers to end, and 30 seconds; when the container has ended, and the next one has not been started, there is none.
func TestTheTimeForARestart(t *testing.T) {
	p := pod(gateless, func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(7)) })
	p = apply(t, p, kruise.Edits{}.Patch(p, restart(t, "a:1", "a:1", later, "new"), after(1)))
	if f := kruise.Facts(p); f.Stuck != rollout.DetailNotRestarted || f.PatchedAt != rollout.Time(after(1).UnixNano()) || f.Patience != 37*time.Second {
		t.Errorf("stuck %v, %v after %v", f.Stuck, f.Patience, f.PatchedAt)
	}
	p.Spec.TerminationGracePeriodSeconds = nil
	if f := kruise.Facts(p); f.Patience != time.Minute {
		t.Errorf("with the default: stuck after %v", f.Patience)
	}
	p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}
	if f := kruise.Facts(p); f.Stuck != rollout.NoDetail || f.Patience != 0 || f.ArrivesBy != 0 {
		t.Errorf("when the container has ended: stuck %v after %v, arrives by %v", f.Stuck, f.Patience, f.ArrivesBy)
	}
}

// TestARestartWithTheGateClosed: the pod is out of use from before until the next container runs.
func TestARestartWithTheGateClosed(t *testing.T) {
	p := pod()
	p = apply(t, p, kruise.Edits{}.Patch(p, closing(restart(t, "a:1", "a:1", later, "new")), after(1)))
	inPlace(t, p, rollout.InPlacePatched)
	p = with(p, func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].ContainerID, p.Status.ContainerStatuses[0].State = "c-2", corev1.ContainerState{}
	})
	inPlace(t, p, rollout.InPlacePatched)
	inPlace(t, started(p, "c-2", after(5)), rollout.InPlaceArrived)
}

// TestWhatNeedsNoRestart: a container that does not run starts anyway, and one of another image is a new one.
func TestWhatNeedsNoRestart(t *testing.T) {
	crashed := pod(gateless, func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State = corev1.ContainerState{} })
	crashed = apply(t, crashed, kruise.Edits{}.Patch(crashed, restart(t, "a:1", "a:1", later, "new"), after(1)))
	open(t, crashed, rollout.InPlaceNone)
	both := apply(t, pod(gateless), kruise.Edits{}.Patch(pod(gateless), restart(t, "a:1", "a:2", later, "new"), after(1)))
	if state := stateOf(t, both); len(state.Restarts) != 0 || state.LastContainerStatuses["a"].ContainerID != "c-1" {
		t.Errorf("the state is %+v, want only the image", state)
	}
}

// TestARestartThatIsSuperseded: the agent may be about to stop the container, so the request stays, also when it is undone. If the image changes
// as well, the agent may stop the container before the kubelet does, which then may start the image of before once more: that has not arrived.
func TestARestartThatIsSuperseded(t *testing.T) {
	p := pod(gateless)
	p = apply(t, p, kruise.Edits{}.Patch(p, restart(t, "a:1", "a:1", later, "b"), after(1)))
	undone := apply(t, p, kruise.Edits{}.Patch(p, images(t, "a:1", "a:1", "c"), after(2)))
	if state := stateOf(t, undone); state.Restarts["a"] != "c-1" || state.UpdateTimestamp != after(2).Format(time.RFC3339) {
		t.Errorf("undone, the state is %+v", state)
	}
	open(t, undone, rollout.InPlacePatched)
	open(t, started(undone, "c-2", after(3)), rollout.InPlaceNone)

	image := apply(t, p, kruise.Edits{}.Patch(p, images(t, "a:1", "a:2", "c"), after(2)))
	if state := stateOf(t, image); len(state.Restarts) != 0 || !state.LastContainerStatuses["a"].Superseded {
		t.Errorf("with another image, the state is %+v", state)
	}
	image.Status.ObservedGeneration = image.Generation
	open(t, started(image, "c-2", after(3)), rollout.InPlacePatched)
	open(t, remake(image, "c-3"), rollout.InPlaceNone)

	done := started(p, "c-2", after(2))
	if state := stateOf(t, apply(t, done, kruise.Edits{}.Patch(done, images(t, "a:1", "a:1", "c"), after(3)))); len(state.Restarts) != 0 {
		t.Errorf("after it has arrived, the next state is %+v", state)
	}
}

// A time to end that is longer than durations can be is a long one.
func TestRestartPatienceIsLong(t *testing.T) {
	for _, seconds := range []int64{18446744074, 1 << 62} {
		yes := true
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps.kruise.io/v1beta1", Kind: "DaemonSet", Controller: &yes}},
				Annotations:     map[string]string{"apps.kruise.io/inplace-update-state": `{"updateTimestamp": "` + later + `", "gateOpen": true, "restarts": {"c": "one"}}`},
			},
			Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &seconds, Containers: []corev1.Container{{Name: "c"}}},
			Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
				Name: "c", ContainerID: "one", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			}}},
		}
		if f := kruise.Facts(p); f.Stuck != rollout.DetailNotRestarted || f.Patience < 365*24*time.Hour {
			t.Errorf("%d seconds: %+v", seconds, f)
		}
	}
}
