// SPDX-License-Identifier: Apache-2.0

package kruise_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/internal/rollout"
)

// gateless is a pod without readiness gates.
func gateless(p *corev1.Pod) { p.Spec.ReadinessGates, p.Status.Conditions = nil, nil }

// open checks the phase of a change that was made with the gate open.
func open(t *testing.T, p *corev1.Pod, want rollout.InPlace) {
	t.Helper()
	f := kruise.Facts(p)
	if f.InPlace != want || f.Open != (want == rollout.InPlacePatched) {
		t.Fatalf("the change is %s, open %t, want %s", f.InPlace, f.Open, want)
	}
}

// TestAChangeWithTheGateOpen is one patch: no condition is written before it or after it, whether the pod has a gate or not.
func TestAChangeWithTheGateOpen(t *testing.T) {
	for name, p := range map[string]*corev1.Pod{
		"no gate": pod(gateless), "an open gate": pod(gate(api.InPlaceUpdateReady, corev1.ConditionTrue, 0)),
	} {
		t.Run(name, func(t *testing.T) {
			edits := kruise.Edits{}.Patch(p, images(t, "a:1", "a:2", "new"), after(1))
			if len(edits) != 1 || edits[0].Of != dialect.Whole {
				t.Fatalf("%d edits, want one patch", len(edits))
			}
			p = apply(t, p, edits)
			open(t, p, rollout.InPlacePatched)
			p = remake(p, "c-2")
			open(t, p, rollout.InPlaceNone)
			if more := (kruise.Edits{}).Unmark(p, after(3)); len(more) != 0 {
				t.Errorf("after it a condition is written: %s", more[0].Patch)
			}
		})
	}
}

// TestAFirstGateIsOpenedAfterTheChange: a pod that was patched before its new gate was opened is not ready before that has been done.
func TestAFirstGateIsOpenedAfterTheChange(t *testing.T) {
	p := pod(gate(api.InPlaceUpdateReady, "", 0))
	p = apply(t, p, kruise.Edits{}.Patch(p, images(t, "a:1", "a:2", "new"), after(1)))
	if f := kruise.Facts(p); f.InPlace != rollout.InPlacePatched || f.Open {
		t.Errorf("the change is %s, open %t", f.InPlace, f.Open)
	}
	p = remake(p, "c-2")
	inPlace(t, p, rollout.InPlaceArrived)
	inPlace(t, apply(t, p, kruise.Edits{}.Unmark(p, after(3))), rollout.InPlaceNone)
}

// TestAClosedGateIsOpenedAfterTheChange: the set stopped closing gates between the mark and the patch.
func TestAClosedGateIsOpenedAfterTheChange(t *testing.T) {
	p := pod(marked(0))
	p = apply(t, p, kruise.Edits{}.Patch(p, images(t, "a:1", "a:2", "new"), after(1)))
	if f := kruise.Facts(p); f.InPlace != rollout.InPlacePatched || f.Open {
		t.Errorf("the change is %s, open %t", f.InPlace, f.Open)
	}
	inPlace(t, remake(p, "c-2"), rollout.InPlaceArrived)
}

// TestTheGateIsClosedInAChange: the set begins to close gates while a change is under way. The next change closes the gate first.
func TestTheGateIsClosedInAChange(t *testing.T) {
	p := pod(gate(api.InPlaceUpdateReady, corev1.ConditionTrue, 0))
	p = apply(t, p, kruise.Edits{}.Patch(p, images(t, "a:1", "a:2", "b"), after(1)))
	edits := kruise.Edits{}.Patch(p, closing(images(t, "a:2", "a:3", "c")), after(1))
	inPlace(t, apply(t, p, edits[:1]), rollout.InPlaceMarked)
	p = apply(t, p, edits)
	inPlace(t, p, rollout.InPlacePatched)
	inPlace(t, remake(p, "c-2"), rollout.InPlaceArrived)
}

// TestAChangeThatHasArrivedIsOver: nothing that happens to the containers later begins it again. Nothing is written when such a change ends, so it has to
// be read from the pod each time.
func TestAChangeThatHasArrivedIsOver(t *testing.T) {
	p := pod(gateless)
	p = remake(apply(t, p, kruise.Edits{}.Patch(p, images(t, "a:1", "a:2", "new"), after(1))), "c-2")
	for name, happens := range map[string]func(s *corev1.ContainerStatus){
		"it crashes": func(s *corev1.ContainerStatus) {
			s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
		},
		"it ends": func(s *corev1.ContainerStatus) {
			s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
		},
		"it restarts": func(s *corev1.ContainerStatus) { s.ContainerID = "c-3" },
	} {
		t.Run(name, func(t *testing.T) {
			open(t, with(p, func(p *corev1.Pod) { happens(&p.Status.ContainerStatuses[0]) }), rollout.InPlaceNone)
		})
	}
}

// TestAChangeThatHasNotArrived: the old container may end, and the new image may not be there.
func TestAChangeThatHasNotArrived(t *testing.T) {
	p := pod(gateless)
	p = apply(t, p, kruise.Edits{}.Patch(p, images(t, "a:1", "a:2", "new"), after(1)))
	for name, happens := range map[string]func(s *corev1.ContainerStatus){
		"nothing": func(*corev1.ContainerStatus) {},
		"the old one ended": func(s *corev1.ContainerStatus) {
			s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
		},
		"the image is pulled": func(s *corev1.ContainerStatus) {
			s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}
		},
		"the sandbox is recreated": func(s *corev1.ContainerStatus) {
			s.State, s.ContainerID = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}, ""
		},
	} {
		t.Run(name, func(t *testing.T) {
			open(t, with(p, func(p *corev1.Pod) { happens(&p.Status.ContainerStatuses[0]) }), rollout.InPlacePatched)
		})
	}
}

// TestReadyAfterAChange: a kubelet may restart a container between two reports, and then the condition Ready has the time of before the change.
func TestReadyAfterAChange(t *testing.T) {
	p := pod(gateless)
	if at := kruise.Facts(p).ReadyAfter; at != 0 {
		t.Errorf("without a change: %d", at)
	}
	p = apply(t, p, kruise.Edits{}.Patch(p, images(t, "a:1", "a:2", "new"), after(1)))
	want := func(p *corev1.Pod, at time.Time) {
		t.Helper()
		if got := kruise.Facts(p).ReadyAfter; got != rollout.Time(at.UnixNano()) {
			t.Errorf("ready after %d, want %d", got, at.UnixNano())
		}
	}
	want(p, after(1))
	p = with(remake(p, "c-2"), func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(after(5))}
	})
	want(p, after(5))
	p = with(p, func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Name = "other" })
	want(p, after(1))
}

// TestStatesOfOthers: only a change that we made with the gate open is judged while the gate is open; OpenKruise opens it when its own has ended.
func TestStatesOfOthers(t *testing.T) {
	p := pod(gate(api.InPlaceUpdateReady, corev1.ConditionTrue, 0))
	p.Annotations = map[string]string{
		api.InPlaceUpdateState: `{"revision":"new","updateTimestamp":"2026-01-01T12:00:00Z","lastContainerStatuses":{"a":{"imageID":"sha-1"}},"updateImages":true}`,
	}
	open(t, p, rollout.InPlaceNone)
}
