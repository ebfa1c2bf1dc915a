// SPDX-License-Identifier: Apache-2.0

package clustercache

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/internal/rollout"
)

// A pod that waits for an image or crashes is noticed, and of what the node has said of an earlier generation of it only the restarts count.
func TestPodFromReadsWhyAPodDoesNotStart(t *testing.T) {
	waiting := func(reason string, restarts int32) corev1.ContainerStatus {
		return corev1.ContainerStatus{RestartCount: restarts, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}
	}
	p := &corev1.Pod{Status: corev1.PodStatus{
		InitContainerStatuses: []corev1.ContainerStatus{{RestartCount: 2}},
		ContainerStatuses:     []corev1.ContainerStatus{waiting("ContainerCreating", 0), waiting("ErrImagePull", 70000)},
	}}
	rec, _ := PodFrom(p)
	if rec.Waiting.String() != "ImagePullBackOff" || rec.Restarts != 65535 || rec.OtherRestarts != 0 {
		t.Errorf("it waits because of %q and has %d restarts, %d of other containers", rec.Waiting, rec.Restarts, rec.OtherRestarts)
	}
	p.Status.ContainerStatuses[0].State.Waiting.Reason = "CrashLoopBackOff"
	if rec, _ = PodFrom(p); rec.Waiting != rollout.WaitingFor("CrashLoopBackOff")|rollout.WaitingFor("ImagePullBackOff") {
		t.Errorf("two containers wait because of %q", rec.Waiting.Reasons())
	}
	p.Generation, p.Status.ObservedGeneration = 2, 1
	p.Status.ContainerStatuses[1].RestartCount = 3
	if rec, _ = PodFrom(p); rec.Waiting != rollout.WaitingNone || rec.Restarts != 5 || rec.OtherRestarts != 2 {
		t.Errorf("of the earlier generation, it waits because of %q and has %d restarts, %d of other containers", rec.Waiting, rec.Restarts, rec.OtherRestarts)
	}
	x := newFixture(t).x
	rec.UID, rec.RV = "a", "1"
	x.PutPod(rec)
	rec.RV, rec.Restarts, rec.OtherRestarts, rec.Waiting = "2", 6, 3, rollout.WaitingFor("CrashLoopBackOff")
	x.PutPod(rec)
	if got := x.pods["a"].pod(); got.Restarts != 6 || got.OtherRestarts != 3 || got.Waiting != rec.Waiting {
		t.Errorf("the cache has %d restarts and %q", got.Restarts, got.Waiting)
	}
}
