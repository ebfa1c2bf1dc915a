// SPDX-License-Identifier: Apache-2.0

package kruise_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/internal/rollout"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

const hookHolds = `[{"userAgent":"Lifecycle","key":"preDeleteHook"}]`

// pod is one of an Advanced DaemonSet with the gate for changes in place, open, and one running container.
func pod(change ...func(p *corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "p", UID: "u", Generation: 2, Labels: map[string]string{"controller-revision-hash": "old"}, Annotations: map[string]string{},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps.kruise.io/v1beta1", Kind: "DaemonSet", Name: "ds", UID: "s", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a:1"}}},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: "a", Image: "docker.io/library/a:1", ImageID: "sha-1", ContainerID: "c-1",
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(noon.Add(-time.Hour))}},
		}}},
	}
	gate(api.InPlaceUpdateReady, corev1.ConditionTrue, 0)(p)
	for _, c := range change {
		c(p)
	}
	return p
}

// gate adds a readiness gate, if there is none, with its condition, if status is not empty; at is counted from noon.
func gate(kind corev1.PodConditionType, status corev1.ConditionStatus, at time.Duration) func(p *corev1.Pod) {
	return func(p *corev1.Pod) {
		drop := func(p *corev1.Pod) {
			var gates []corev1.PodReadinessGate
			for _, g := range p.Spec.ReadinessGates {
				if g.ConditionType != kind {
					gates = append(gates, g)
				}
			}
			var conditions []corev1.PodCondition
			for _, c := range p.Status.Conditions {
				if c.Type != kind {
					conditions = append(conditions, c)
				}
			}
			p.Spec.ReadinessGates, p.Status.Conditions = gates, conditions
		}
		drop(p)
		p.Spec.ReadinessGates = append(p.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: kind})
		if status != "" {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind, Status: status, LastTransitionTime: metav1.NewTime(noon.Add(at))})
		}
	}
}

func marked(at time.Duration) func(p *corev1.Pod) {
	return gate(api.InPlaceUpdateReady, corev1.ConditionFalse, at)
}

func held(message string) func(p *corev1.Pod) {
	return func(p *corev1.Pod) {
		gate(api.KruisePodReady, corev1.ConditionFalse, 0)(p)
		p.Status.Conditions[len(p.Status.Conditions)-1].Message = message
	}
}

func annotated(key, text string) func(p *corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations[key] = text }
}

// patched puts a state of 12:00:05 on the pod.
func patched(containers string) func(p *corev1.Pod) {
	return annotated(api.InPlaceUpdateState, `{"revision":"new","updateTimestamp":"2026-01-01T12:00:05Z","lastContainerStatuses":`+containers+`}`)
}

func lifecycle(state string) func(p *corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels[api.LifecycleState] = state }
}

func status(change func(s *corev1.ContainerStatus)) func(p *corev1.Pod) {
	return func(p *corev1.Pod) { change(&p.Status.ContainerStatuses[0]) }
}

func TestPhaseOfAChange(t *testing.T) {
	remade := status(func(s *corev1.ContainerStatus) { s.ContainerID = "c-2" })
	before := patched(`{"a":{"imageID":"sha-1","containerID":"c-1"}}`)
	theirs := patched(`{"a":{"imageID":"sha-1"}}`)
	started := func(at time.Duration) func(p *corev1.Pod) {
		return status(func(s *corev1.ContainerStatus) {
			s.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(noon.Add(at))}
		})
	}
	seen := func(generation int64) func(p *corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.ObservedGeneration = generation }
	}
	ungated := func(p *corev1.Pod) { p.Spec.ReadinessGates = nil }
	wants := func(image string) func(p *corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Containers[0].Image = image }
	}
	for _, c := range []struct {
		name string
		pod  *corev1.Pod
		want rollout.InPlace
	}{
		{"no gate", pod(ungated, marked(0), ungated), rollout.InPlaceNone},
		{"an open gate", pod(), rollout.InPlaceNone},
		{"an open gate and a state from before", pod(before), rollout.InPlaceNone},
		{"a gate that was never opened", pod(gate(api.InPlaceUpdateReady, "", 0)), rollout.InPlaceArrived},
		{"a gate for hooks that was never opened", pod(gate(api.KruisePodReady, "", 0)), rollout.InPlaceArrived},
		{"a gate for hooks that is open", pod(gate(api.KruisePodReady, corev1.ConditionTrue, 0)), rollout.InPlaceNone},
		{"the gate for hooks only, never opened", pod(ungated, gate(api.KruisePodReady, "", 0)), rollout.InPlaceArrived},
		{"the gate for hooks is never opened and the change under way", pod(gate(api.KruisePodReady, "", 0), marked(0), before), rollout.InPlacePatched},
		{"the condition is Unknown", pod(gate(api.InPlaceUpdateReady, corev1.ConditionUnknown, 0)), rollout.InPlaceMarked},

		{"marked for the first time", pod(marked(0)), rollout.InPlaceMarked},
		{"marked after an earlier change", pod(marked(6*time.Second), before, remade), rollout.InPlaceMarked},
		{"marked, the state is no JSON", pod(marked(0), annotated(api.InPlaceUpdateState, "{")), rollout.InPlaceMarked},
		{"marked, the time of the state is none", pod(marked(0), annotated(api.InPlaceUpdateState, `{"updateTimestamp":"noon"}`)), rollout.InPlaceMarked},

		{"patched", pod(marked(0), before), rollout.InPlacePatched},
		{"patched in the second of the mark", pod(marked(5*time.Second), before), rollout.InPlacePatched},
		{"patched, under the older name", pod(marked(0), annotated(api.InPlaceUpdateStateOld, `{"updateTimestamp":"2026-01-01T12:00:05Z","lastContainerStatuses":{"a":{"imageID":"sha-1"}}}`)), rollout.InPlacePatched},
		{"patched, in another time zone", pod(marked(0), annotated(api.InPlaceUpdateState, `{"updateTimestamp":"2026-01-01T13:00:05+01:00","lastContainerStatuses":{"a":{"containerID":"c-1"}}}`)), rollout.InPlacePatched},
		{"the container is not running", pod(marked(0), before, remade, status(func(s *corev1.ContainerStatus) { s.State = corev1.ContainerState{} })), rollout.InPlacePatched},
		{"the container has no status", pod(marked(0), before, func(p *corev1.Pod) { p.Status.ContainerStatuses = nil }), rollout.InPlacePatched},
		{"one of two is still the same", pod(marked(0), remade, patched(`{"a":{"containerID":"c-1"},"b":{"containerID":"d-1"}}`), func(p *corev1.Pod) {
			b := p.Status.ContainerStatuses[0]
			b.Name, b.ContainerID = "b", "d-1"
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, b)
		}), rollout.InPlacePatched},
		{"made anew, but seen in an old generation", pod(marked(0), before, remade, seen(1)), rollout.InPlacePatched},

		{"made anew", pod(marked(0), before, remade), rollout.InPlaceArrived},
		{"made anew, the digest is the same", pod(marked(0), before, remade, wants("a:2"), status(func(s *corev1.ContainerStatus) { s.Image = "docker.io/library/a:2" })), rollout.InPlaceArrived},
		{"made anew, of the old image or of one more name of it", pod(marked(0), before, remade, wants("a:2")), rollout.InPlacePatched},
		{"made anew, the node has seen the patch", pod(marked(0), before, remade, wants("a:2"), seen(2)), rollout.InPlaceArrived},
		{"made anew, of another image", pod(marked(0), before, remade, wants("a:2"), status(func(s *corev1.ContainerStatus) { s.ImageID = "sha-2" })), rollout.InPlaceArrived},
		{"made anew, and seen", pod(marked(0), before, remade, seen(2)), rollout.InPlaceArrived},
		{"seen, but the container is the same", pod(marked(0), before, seen(2)), rollout.InPlacePatched},
		{"labels only", pod(marked(0), patched(`{}`)), rollout.InPlaceArrived},
		{"labels only, not seen", pod(marked(0), patched(`{}`), seen(1)), rollout.InPlacePatched},

		{"by OpenKruise, the same image", pod(marked(0), theirs), rollout.InPlacePatched},
		{"by OpenKruise, another image", pod(marked(0), theirs, status(func(s *corev1.ContainerStatus) { s.ImageID = "sha-2" })), rollout.InPlaceArrived},
		{"by OpenKruise, the same digest, started since", pod(marked(0), theirs, started(6*time.Second)), rollout.InPlaceArrived},
		{"by OpenKruise, the same digest, started before", pod(marked(0), theirs, started(4*time.Second)), rollout.InPlacePatched},

		{"held by the hook without being prepared", pod(held(hookHolds)), rollout.InPlaceArrived},
		{"held by the hook and restored", pod(held(hookHolds), lifecycle(api.LifecycleNormal)), rollout.InPlaceArrived},
		{"held by the hook and prepared", pod(held(hookHolds), lifecycle(api.LifecyclePreparingDelete)), rollout.InPlaceNone},
		{"held by somebody else", pod(held(`[{"userAgent":"Other","key":"k"}]`)), rollout.InPlaceNone},
		{"held with a word that is no list", pod(held("maintenance")), rollout.InPlaceNone},
	} {
		facts := kruise.Facts(c.pod)
		if facts.InPlace != c.want {
			t.Errorf("%s: %s, want %s", c.name, facts.InPlace, c.want)
		}
		if interrupted := kruise.HeldByHook(c.pod) && c.want == rollout.InPlaceArrived; facts.Interrupted != interrupted {
			t.Errorf("%s: interrupted %t, want %t", c.name, facts.Interrupted, interrupted)
		}
	}
}

// TestARestartOfTheOldImage: a node that does not tell which generation of the pod it has seen may have restarted the old image. What
// nobody can tell is not waited for without end.
func TestARestartOfTheOldImage(t *testing.T) {
	restarted := func(p *corev1.Pod) {
		p.Spec.Containers[0].Image, p.Status.ContainerStatuses[0].ContainerID = "a:2", "c-2"
	}
	state := patched(`{"a":{"imageID":"sha-1","containerID":"c-1"}}`)
	by := rollout.Time(noon.Add(5*time.Second + time.Minute).UnixNano())
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want rollout.Time
	}{
		"restarted":           {pod(marked(0), state, restarted), by},
		"not restarted":       {pod(marked(0), state, func(p *corev1.Pod) { p.Spec.Containers[0].Image = "a:2" }), 0},
		"of the wanted image": {pod(marked(0), state, restarted, func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Image = "a:2" }), 0},
		"not changed":         {pod(restarted), 0},
	} {
		if got := kruise.Facts(c.pod).ArrivesBy; got != c.want {
			t.Errorf("%s: arrives by %d, want %d", name, got, c.want)
		}
	}
}

func TestFacts(t *testing.T) {
	p := pod(marked(3*time.Second), lifecycle(api.LifecyclePreparingDelete), func(p *corev1.Pod) { p.Finalizers = []string{"x/y"} })
	f := kruise.Facts(p)
	if !f.Gate || !f.Preparing || len(f.Finalizers) != 1 || f.Finalizers[0] != "x/y" || f.MarkedAt != rollout.Time(noon.Add(3*time.Second).UnixNano()) {
		t.Errorf("facts %+v", f)
	}
	p.Finalizers[0] = "changed"
	if f.Finalizers[0] != "x/y" {
		t.Error("the facts share memory with the pod")
	}
	p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "s"}, {Name: "t"}}
	if got := kruise.Facts(p).SecretNames(); len(f.SecretNames()) > 0 || !slices.Equal(got, []string{"s", "t"}) {
		t.Errorf("the pull secrets are %q, before %q", got, f.SecretNames())
	}
	if f := kruise.Facts(pod(lifecycle(api.LifecycleNormal))); f.Preparing {
		t.Error("a restored pod is not preparing")
	}
}

func TestFactsAreForPodsOfTheDialect(t *testing.T) {
	for version, ours := range map[string]bool{
		"apps.kruise.io/v1beta1": true, "apps.kruise.io/v1alpha1": true, "apps/v1": false, "apps.kruise.iox/v1": false,
	} {
		p := pod(func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion = version })
		if got := kruise.Facts(p) != nil; got != ours {
			t.Errorf("%s: facts %v, want %v", version, got, ours)
		}
	}
	if kruise.Facts(pod(func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "CloneSet" })) != nil {
		t.Error("a pod of another workload of OpenKruise has facts")
	}
	if kruise.Facts(pod(func(p *corev1.Pod) { p.OwnerReferences = nil })) != nil {
		t.Error("an orphan has facts")
	}
}
