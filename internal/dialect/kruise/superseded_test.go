// SPDX-License-Identifier: Apache-2.0

package kruise_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/internal/rollout"
)

// TestAChangeIsSuperseded: while a change in place is under way, another one is asked for, or the first one is taken back.
func TestAChangeIsSuperseded(t *testing.T) {
	e := kruise.Edits{}
	started := func() *corev1.Pod {
		p := pod(marked(0))
		return apply(t, p, e.Patch(p, images(t, "a:1", "a:2", "b"), after(1)))
	}
	runs := func(container, image string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			s := &p.Status.ContainerStatuses[0]
			s.ContainerID, s.ImageID, s.Image, p.Status.ObservedGeneration = container, "sha-of-"+image, "docker.io/library/"+image, p.Generation
		}
	}
	t.Run("by another image", func(t *testing.T) {
		p := started()
		p = apply(t, p, e.Patch(p, images(t, "a:2", "a:3", "c"), after(2)))
		inPlace(t, p, rollout.InPlacePatched)
		first := with(p, runs("c-2", "a:2"))
		inPlace(t, first, rollout.InPlacePatched) // the node has only come to the first change
		if f := kruise.Facts(first); f.ArrivesBy == 0 {
			t.Error("it is not certain how a node names an image, so this wait must end")
		}
		inPlace(t, with(p, runs("c-2", "a:3")), rollout.InPlaceArrived)
		inPlace(t, with(p, runs("c-3", "a:3")), rollout.InPlaceArrived)
		again := apply(t, first, e.Patch(first, images(t, "a:3", "a:4", "d"), after(3)))
		inPlace(t, with(again, runs("c-3", "a:3")), rollout.InPlacePatched)
		inPlace(t, with(again, runs("c-4", "a:4")), rollout.InPlaceArrived)
	})
	t.Run("after the node came to it", func(t *testing.T) {
		p := remake(started(), "c-2")
		p = apply(t, p, e.Patch(p, images(t, "a:2", "a:3", "c"), after(2)))
		inPlace(t, p, rollout.InPlacePatched)
		if s := stateOf(t, p); s.LastContainerStatuses["a"].ContainerID != "c-2" {
			t.Errorf("state %+v", s)
		}
	})
	t.Run("by labels", func(t *testing.T) {
		p := started()
		p = apply(t, p, e.Patch(p, images(t, "a:2", "a:2", "c"), after(2)))
		inPlace(t, p, rollout.InPlacePatched) // the image of the first change has not arrived
		inPlace(t, remake(p, "c-2"), rollout.InPlaceArrived)
	})
	t.Run("by its undoing before the node came to it", func(t *testing.T) {
		p := started()
		p = apply(t, p, e.Patch(p, images(t, "a:2", "a:1", "old"), after(2)))
		if p.Spec.Containers[0].Image != "a:1" {
			t.Fatalf("image %s", p.Spec.Containers[0].Image)
		}
		inPlace(t, p, rollout.InPlaceArrived) // the kubelet has no reason to recreate the container
		p.Generation, p.Status.ObservedGeneration = 4, 3
		inPlace(t, p, rollout.InPlacePatched)
		late := with(p, runs("c-2", "a:2"))
		inPlace(t, late, rollout.InPlacePatched) // it had started the first change, and had not reported that
		inPlace(t, with(late, runs("c-3", "a:1")), rollout.InPlaceArrived)
		inPlace(t, with(p, runs("c-1", "a:1")), rollout.InPlaceArrived)
		redone := apply(t, p, e.Patch(p, images(t, "a:1", "a:2", "b"), after(3)))
		inPlace(t, with(redone, runs("c-1", "a:1")), rollout.InPlacePatched)
		inPlace(t, with(redone, runs("c-2", "a:2")), rollout.InPlaceArrived)
	})
	t.Run("while no container is reported", func(t *testing.T) {
		p := with(started(), func(p *corev1.Pod) { p.Status.ContainerStatuses = nil })
		p = apply(t, p, e.Patch(p, images(t, "a:2", "a:3", "c"), after(2)))
		p = with(p, func(p *corev1.Pod) { p.Status.ContainerStatuses = pod().Status.ContainerStatuses })
		inPlace(t, with(p, runs("c-2", "a:2")), rollout.InPlacePatched)
		inPlace(t, with(p, runs("c-3", "a:3")), rollout.InPlaceArrived)
	})
	t.Run("by its undoing after the node came to it", func(t *testing.T) {
		p := remake(started(), "c-2")
		p = apply(t, p, e.Patch(p, images(t, "a:2", "a:1", "old"), after(2)))
		inPlace(t, p, rollout.InPlacePatched)
		inPlace(t, remake(p, "c-3"), rollout.InPlaceArrived)
	})
}
