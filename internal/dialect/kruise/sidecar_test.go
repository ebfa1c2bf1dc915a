// SPDX-License-Identifier: Apache-2.0

package kruise_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	api "everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/internal/rollout"
)

// withInit has a pod an init container that has ended, and a sidecar.
func withInit(p *corev1.Pod) {
	p.Spec.InitContainers = []corev1.Container{
		{Name: "i", Image: "i:1"}, {Name: "m", Image: "m:1", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)},
	}
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{
		{Name: "i", Image: "i:1", ImageID: "sha-i", ContainerID: "i-1", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}},
		{Name: "m", Image: "m:1", ImageID: "sha-m", ContainerID: "m-1", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
	}
}

// TestASidecarInPlace: it is changed like a container, and stands apart in the state, where OpenKruise does not wait for it.
func TestASidecarInPlace(t *testing.T) {
	const with = `{spec: {initContainers: [{name: i, image: "i:1"}, {name: m, image: "m:1", restartPolicy: Always}], containers: [{name: a, image: "a:1"}]}}`
	c := change(t, with, strings.Replace(strings.Replace(with, "m:1", "m:2", 1), "a:1", "a:2", 1), "new")
	p := pod(gateless, withInit)
	edits := kruise.Edits{}.Patch(p, c, after(1))
	if len(edits) != 1 {
		t.Fatalf("%d edits, want one", len(edits))
	}
	p = apply(t, p, edits)
	if p.Spec.InitContainers[1].Image != "m:2" || p.Spec.InitContainers[0].Image != "i:1" || p.Spec.Containers[0].Image != "a:2" {
		t.Errorf("the images are %s, %s and %s", p.Spec.InitContainers[0].Image, p.Spec.InitContainers[1].Image, p.Spec.Containers[0].Image)
	}
	state := stateOf(t, p)
	if len(state.LastContainerStatuses) != 1 || state.LastContainerStatuses["a"].ContainerID != "c-1" || state.LastSidecarStatuses["m"] != (api.InPlaceContainer{ImageID: "sha-m", ContainerID: "m-1"}) {
		t.Errorf("the state is %+v", state)
	}
	open(t, p, rollout.InPlacePatched)
	p = remake(p, "c-2")
	open(t, p, rollout.InPlacePatched) // the sidecar is still that of before
	again := apply(t, p, kruise.Edits{}.Patch(p, change(t, with, strings.Replace(with, "a:1", "a:3", 1), "newer"), after(2)))
	if state := stateOf(t, again); state.LastSidecarStatuses["m"].ContainerID != "m-1" || state.LastContainerStatuses["a"].ContainerID != "c-2" {
		t.Errorf("superseded, the state is %+v", state)
	}
	p.Status.InitContainerStatuses[1].ContainerID, p.Status.InitContainerStatuses[1].Image = "m-2", "m:2"
	open(t, p, rollout.InPlaceNone)
}

// TestAnInitContainerInPlace: nothing but the template of the pod changes, so nothing is waited for.
func TestAnInitContainerInPlace(t *testing.T) {
	const with = `{spec: {initContainers: [{name: i, image: "i:1"}, {name: m, image: "m:1", restartPolicy: Always}], containers: [{name: a, image: "a:1"}]}}`
	p := pod(gateless, withInit)
	p = apply(t, p, kruise.Edits{}.Patch(p, change(t, with, strings.Replace(with, "i:1", "i:2", 1), "new"), after(1)))
	if p.Spec.InitContainers[0].Image != "i:2" || p.Labels["controller-revision-hash"] != "new" {
		t.Errorf("image %s, revision %s", p.Spec.InitContainers[0].Image, p.Labels["controller-revision-hash"])
	}
	open(t, p, rollout.InPlaceNone)
}
