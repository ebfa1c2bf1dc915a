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
	if rec.Waiting.String() != "ImagePullBackOff" || rec.Restarts != 65535 {
		t.Errorf("it waits because of %q and has %d restarts", rec.Waiting, rec.Restarts)
	}
	p.Generation, p.Status.ObservedGeneration = 2, 1
	p.Status.ContainerStatuses[1].RestartCount = 3
	if rec, _ = PodFrom(p); rec.Waiting != rollout.WaitingNone || rec.Restarts != 5 {
		t.Errorf("of the earlier generation, it waits because of %q and has %d restarts", rec.Waiting, rec.Restarts)
	}
	x := newFixture(t).x
	rec.UID, rec.RV = "a", "1"
	x.PutPod(rec)
	rec.RV, rec.Restarts, rec.Waiting = "2", 6, rollout.WaitingFor("CrashLoopBackOff")
	x.PutPod(rec)
	if got := x.pods["a"].pod(); got.Restarts != 6 || got.Waiting != rec.Waiting {
		t.Errorf("the cache has %d restarts and %q", got.Restarts, got.Waiting)
	}
}
