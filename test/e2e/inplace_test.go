// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kruisedialect "everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/test/harness"
)

// TestInPlace is what Advanced DaemonSets do to pods that they change and do not replace.
func TestInPlace(t *testing.T) {
	t.Run("Image", inPlaceImage)
	t.Run("LabelsAndAnnotations", inPlaceMetadata)
	t.Run("Recreation", inPlaceFallback)
	t.Run("SameDigest", inPlaceSameDigest)
	t.Run("CrashAndUndo", inPlaceCrash)
	t.Run("Restart", inPlaceRestart)
	t.Run("Environment", inPlaceEnvironment)
	t.Run("Sidecar", inPlaceSidecar)
	t.Run("InitImage", inPlaceInitImage)
	t.Run("Resize", inPlaceResize)
	t.Run("MissingImage", inPlaceMissingImage)
}

// inPlaceImage: pod, address and the other container stay; the one container is started once more.
func inPlaceImage(t *testing.T) {
	s := newStage(t, advancedInPlace())
	s.run(withSide)
	before := s.pods()
	recorder := s.ObserveAdvanced(set)
	survived := s.inFlight(sidePort)
	s.roll(two)
	survived()
	s.keptPods(before)
	for node, pod := range s.pods() {
		was := before[node]
		if restarts(pod, set) != 1 || restarts(pod, side) != 0 {
			t.Errorf("%s: restarts %d and %d, want 1 and none", pod.Name, restarts(pod, set), restarts(pod, side))
		}
		if now, old := statusOf(pod, side).ContainerID, statusOf(was, side).ContainerID; now != old || now == "" {
			t.Errorf("%s: the other container %s became %s", pod.Name, old, now)
		}
		if now, old := statusOf(pod, set), statusOf(was, set); now.ContainerID == old.ContainerID || now.ImageID == old.ImageID {
			t.Errorf("%s: the container is still %s, of image %s", pod.Name, now.ContainerID, now.ImageID)
		}
		if body, err := s.fromOutside(was.Status.PodIP, port, "/"); err != nil || body != "v2 "+pod.Name+" "+node {
			t.Errorf("the pod of node %s answers %q (%v) at its address", node, body, err)
		}
	}
	s.ran(set, "v1", "v2")
	s.ran(side, "v1")
	s.Judge(recorder)
}

// keptPods fails unless each node has the pod that it had, at the same address.
func (s *stage) keptPods(before map[string]*corev1.Pod) {
	s.t.Helper()
	for node, pod := range s.pods() {
		was := before[node]
		if pod.UID != was.UID || pod.Status.PodIP != was.Status.PodIP || pod.Status.PodIP == "" {
			s.t.Errorf("node %s: pod %s at %s became %s at %s", node, was.UID, was.Status.PodIP, pod.UID, pod.Status.PodIP)
		}
	}
}

// inPlaceMetadata: labels and annotations are changed, and no container is started again.
func inPlaceMetadata(t *testing.T) {
	s := newStage(t, advancedInPlace())
	s.run(withSide)
	before := s.pods()
	survived := s.inFlight(sidePort)
	generation := s.change(`{"spec": {"template": {"metadata": {"labels": {"tier": "edge"}, "annotations": {"note": "changed"}}}}}`)
	s.Wait("the pods are labelled", harness.RolledOut(set, generation, count), harness.EachPod(set, "labelled and annotated", func(pod *corev1.Pod) bool {
		return pod.Labels["tier"] == "edge" && pod.Annotations["note"] == "changed"
	}))
	survived()
	s.keptPods(before)
	s.sameContainers(before)
	s.ran(set, "v1")
	s.ran(side, "v1")
}

// sameContainers fails if a container of the pods was started again.
func (s *stage) sameContainers(before map[string]*corev1.Pod) {
	s.t.Helper()
	for node, pod := range s.pods() {
		for _, status := range pod.Status.ContainerStatuses {
			if was := statusOf(before[node], status.Name); was.ContainerID != status.ContainerID || status.RestartCount != was.RestartCount {
				s.t.Errorf("%s: container %s was %s with %d restarts, and is %s with %d", pod.Name, status.Name,
					was.ContainerID, was.RestartCount, status.ContainerID, status.RestartCount)
			}
		}
	}
}

// inPlaceFallback: what cannot be changed in a pod has it recreated.
func inPlaceFallback(t *testing.T) {
	s := newStage(t, advancedInPlace())
	s.run()
	before := s.pods()
	generation := s.patch(jsonPatch, `[{"op": "add", "path": "/spec/template/spec/containers/0/env/-", "value": {"name": "A", "value": "b"}},
		{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "`+two+`"}]`)
	s.rolled(generation, two)
	for node, pod := range s.pods() {
		if pod.UID == before[node].UID {
			t.Errorf("the pod of node %s is still the one from before", node)
		}
	}
	s.kind.inPlace = false
	s.ran(set, "v1", "v2")
}

// inPlaceSameDigest: another tag of the same image is an update too, though the image on the node stays what it is.
func inPlaceSameDigest(t *testing.T) {
	s := newStage(t, advancedInPlace())
	s.run()
	before := s.pods()
	again := s.tag("v1", "v1-again")
	s.roll(again)
	s.keptPods(before)
	for node, pod := range s.pods() {
		now, was := statusOf(pod, set), statusOf(before[node], set)
		if now.ImageID != was.ImageID || now.RestartCount != 1 {
			t.Errorf("%s: image %s, %d restarts; want image %s and 1", pod.Name, now.ImageID, now.RestartCount, was.ImageID)
		}
	}
	s.ran(set, "v1", "v1")
}

// inPlaceCrash: an image that crashes again and again stops the roll at the first node, and the undo is in place too.
func inPlaceCrash(t *testing.T) {
	s := newStage(t, advancedInPlace())
	s.run(withSide)
	before := s.pods()
	survived := s.inFlight(sidePort)
	s.order(crashing)
	s.Wait("a container crashes again and again", waits(crashing, "CrashLoopBackOff"),
		harness.ConditionIs(set, kruisedialect.Degraded, corev1.ConditionTrue, kruisedialect.ReasonPodsFailing))
	var tried []string
	for _, pod := range s.View().Pods(set) {
		if runs(crashing)(pod) {
			tried = append(tried, pod.Spec.NodeName)
		}
	}
	if len(tried) != 1 {
		t.Errorf("nodes %v have the image that crashes, want one", tried)
	}
	// By then the kubelet delays the next start of the bad image by 40 seconds. That does not hold the good one.
	s.Poll("the container has crashed again and again", func() error {
		if n := restarts(s.View().PodOn(set, tried[0]), set); n < 4 {
			return fmt.Errorf("it was restarted %d times", n)
		}
		return nil
	})
	asked := time.Now()
	s.roll(one)
	survived()
	s.keptPods(before)
	s.ran(side, "v1")
	for _, node := range s.Nodes {
		if node != tried[0] {
			s.ranOn(node, set, "v1")
			continue
		}
		events := s.journal(node)
		last := events[len(events)-1]
		if err := overlaps(events); err != nil || last.Event != "start" || last.Version != "v1" {
			t.Errorf("the journal of node %s ends with %+v (%v)", node, last, err)
		}
		if took := last.Time.Sub(asked); took > 10*time.Second {
			t.Errorf("on node %s the good image was started %v after the undo", node, took)
		}
		t.Logf("the good image was started %v after the undo", last.Time.Sub(asked))
	}
	if body, err := s.fromOutside(before[tried[0]].Status.PodIP, port, "/"); err != nil || !strings.HasPrefix(body, "v1 ") {
		t.Errorf("after the undo the pod answers %q (%v)", body, err)
	}
}

// inPlaceRestart: the agents restart what is asked for, once, node after node; all else stays.
func inPlaceRestart(t *testing.T) {
	s := newStage(t, advancedInPlace())
	s.run(withSide)
	before := s.pods()
	recorder := s.ObserveAdvanced(set)
	survived := s.inFlight(sidePort)
	s.restartInPlace(set, 1, 0)
	survived()
	s.keptPods(before)
	s.ran(set, "v1", "v1")
	s.ran(side, "v1")
	for _, node := range s.Nodes {
		if body, err := s.fromOutside(before[node].Status.PodIP, port, "/"); err != nil || !strings.HasPrefix(body, "v1 ") {
			t.Errorf("after the restart the pod of node %s answers %q (%v)", node, body, err)
		}
	}
	s.restartInPlace("", 2, 1)
	s.keptPods(before)
	s.Judge(recorder)
}

// inPlaceEnvironment: a label that a variable of one container reads is changed, and back; that container alone is started again, with the new value.
func inPlaceEnvironment(t *testing.T) {
	s := newStage(t, advancedInPlace())
	s.Poll("an agent works on each node, or its pod is recreated", func() error { return agentsReady(s) })
	s.run(withSide, func(ds *appsv1.DaemonSet) {
		ds.Spec.Template.Labels = maps.Clone(ds.Spec.Template.Labels) // the selector shares it
		ds.Spec.Template.Labels["tier"] = "first"
		pod := &ds.Spec.Template.Spec.Containers[0].Env[0] // what the application answers as the name of its pod
		pod.ValueFrom.FieldRef.FieldPath = "metadata.labels['tier']"
	})
	before := s.pods()
	recorder := s.ObserveAdvanced(set)
	survived := s.inFlight(sidePort)
	for done, tier := range []string{"second", "first"} {
		generation := s.change(fmt.Sprintf(`{"spec": {"template": {"metadata": {"labels": {"tier": %q}}}}}`, tier))
		s.Wait("the containers were restarted", harness.RolledOut(set, generation, count), harness.EachPod(set, "restarted", func(pod *corev1.Pod) bool {
			return pod.Labels["tier"] == tier && restarts(pod, set) == int32(done+1) && restarts(pod, side) == 0
		}))
		s.keptPods(before)
		for _, node := range s.Nodes {
			if body, err := s.fromOutside(before[node].Status.PodIP, port, "/"); err != nil || body != "v1 "+tier+" "+node {
				t.Errorf("the pod of node %s answers %q (%v), want tier %s", node, body, err, tier)
			}
		}
	}
	survived()
	s.ran(set, "v1", "v1", "v1")
	s.ran(side, "v1")
	s.Judge(recorder)
}

// restartInPlace asks for a restart in place of one container, or of all, and waits until each of both has been restarted as often as this.
func (s *stage) restartInPlace(container string, first, second int32) {
	s.t.Helper()
	args := []string{"restart", "ads/" + set, "--in-place"}
	if container != "" {
		args = append(args, "--container", container)
	}
	if out, err := s.Plugin(args...); err != nil {
		s.t.Fatalf("%v\n%s", err, out)
	}
	asked, err := s.sets().Get(s.Context(), set, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.Wait("all pods were restarted", harness.RolledOut(set, asked.GetGeneration(), count), harness.EachPod(set, "restarted", func(pod *corev1.Pod) bool {
		return restarts(pod, set) == first && restarts(pod, side) == second
	}))
}

// inPlaceSidecar: a sidecar among the init containers gets another image, and nothing else is started again.
func inPlaceSidecar(t *testing.T) {
	s := newStage(t, advancedInPlace())
	s.run(func(ds *appsv1.DaemonSet) {
		sidecar := container(side, sidePort)
		sidecar.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		ds.Spec.Template.Spec.InitContainers = []corev1.Container{sidecar}
	})
	before := s.pods()
	recorder := s.ObserveAdvanced(set)
	survived := s.inFlight(port)
	generation := s.patch(jsonPatch, fmt.Sprintf(`[{"op": "replace", "path": "/spec/template/spec/initContainers/0/image", "value": %q}]`, two))
	s.Wait("all sidecars run "+two, harness.RolledOut(set, generation, count), harness.EachPod(set, "with its sidecar restarted", func(pod *corev1.Pod) bool {
		return pod.Status.InitContainerStatuses[0].RestartCount == 1
	}))
	survived()
	s.keptPods(before)
	s.sameContainers(before)
	s.ran(set, "v1")
	s.ran(side, "v1", "v2")
	s.Judge(recorder)
}
