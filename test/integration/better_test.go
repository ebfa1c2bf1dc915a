// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/test/harness"
	"everynode.dev/everynode/test/observe"
)

// TestMaxReplacing: a set whose pods are all broken gets a good template. Upstream replaces all of them at once; the
// annotation caps how many nodes are in the middle of it.
func TestMaxReplacing(t *testing.T) {
	t.Parallel()
	const nodes, limit = 6, 2
	s := cluster(t).Space(t, nodes)
	tests := []struct {
		name       string
		annotation map[string]string
		check      func(most int) bool
		want       string
	}{
		{"without", nil, func(most int) bool { return most > limit }, "more than 2"},
		{"number", map[string]string{everynode.MaxReplacing: "2"}, func(most int) bool { return most >= 1 && most <= limit }, "at most 2"},
		{"percent", map[string]string{everynode.MaxReplacing: "30%"}, func(most int) bool { return most >= 1 && most <= limit }, "at most 2"},
		{"invalid", map[string]string{everynode.MaxReplacing: "lots"}, func(most int) bool { return most == 1 }, "1, the strictest cap"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := s.In(t)
			if test.annotation != nil {
				onlyEverynode(t, s.Cluster, "upstream's controller has no cap on replacements")
			}
			breakAll(t, s, test.name)
			recorder := s.Observe(test.name)
			written := s.Update(test.name, harness.WithImage(harness.Image3), func(set *daemonSet) { set.Annotations = test.annotation })
			s.Wait("the good template is everywhere", harness.RolledOut(test.name, written.Generation, nodes), runsImage(test.name, harness.Image3))
			if _, err := recorder.Finish(t.Context()); err != nil {
				t.Fatal(err)
			}
			if most := mostInFlight(recorder.Log(), test.name, nodes); !test.check(most) {
				t.Errorf("%d nodes were in the middle of the update at once, want %s", most, test.want)
			}
			if test.name == "invalid" {
				s.Wait("an event names the annotation", harness.HasEvent(test.name, corev1.EventTypeWarning, "InvalidAnnotation"))
			}
		})
	}
}

// breakAll gets all pods of a new set onto a broken image.
func breakAll(t *testing.T, s *harness.Space, name string) {
	t.Helper()
	set := s.Create(name, harness.WithImage(harness.BrokenImage))
	s.Wait("all pods are broken", harness.Observed(name, set.Generation), func(v harness.View) error {
		pods := v.Pods(name)
		if len(pods) != len(s.Nodes) {
			return fmt.Errorf("%d pods", len(pods))
		}
		for _, pod := range pods {
			if pod.Spec.NodeName == "" {
				return fmt.Errorf("pod %s is not bound yet", pod.Name)
			}
		}
		return nil
	})
}

// mostInFlight plays a log and returns the largest number of nodes that at one moment had no live pod of the set, or one
// with Image3 that was not ready.
func mostInFlight(log []observe.Event, set string, nodes int) int {
	pods, most, begun := map[types.UID]*corev1.Pod{}, 0, false
	for _, event := range log {
		pod, ok := event.Object.(*corev1.Pod)
		if !ok || pod.Labels["app"] != set {
			continue
		}
		pods[pod.UID] = pod
		if event.Type == watch.Deleted {
			delete(pods, pod.UID)
		}
		settled := map[string]bool{}
		for _, p := range pods {
			if p.DeletionTimestamp == nil && (p.Spec.Containers[0].Image != harness.Image3 || harness.Ready(p)) {
				settled[observe.NodeOf(p)] = true
			}
		}
		// The list at the start of the log comes pod by pod; what is missing then is not in flight.
		if begun = begun || len(settled) == nodes; begun {
			most = max(most, nodes-len(settled))
		}
	}
	return most
}

// TestSurgeWithAPodOnADeletedNode: a pod left on a Node that no longer exists does not block a surge rollout.
func TestSurgeWithAPodOnADeletedNode(t *testing.T) {
	t.Parallel()
	s := cluster(t).Space(t, 3)
	onlyEverynode(t, s.Cluster, "upstream's controller returns an error until the pod is garbage collected")
	s.Run("ds", harness.WithBudget("0", "1"))
	left := s.View().PodOn("ds", s.Nodes[0])
	// With a finalizer the pod outlives its node for as long as the test needs it.
	patchPod(t, s, left.Name, `{"metadata":{"finalizers":["example.org/test"]}}`)
	defer patchPod(t, s, left.Name, `{"metadata":{"finalizers":null}}`)
	s.RemoveNode(s.Nodes[0])
	written := s.Update("ds", harness.WithImage(harness.Image2))
	s.Wait("the surge ends on the other nodes", harness.Observed("ds", written.Generation),
		harness.StatusIs("ds", "2 of 2 updated and available", func(status status) bool {
			return status.DesiredNumberScheduled == 2 && status.UpdatedNumberScheduled == 2 && status.NumberAvailable == 2
		}))
	if !slices.ContainsFunc(s.View().AllPods(), func(pod *corev1.Pod) bool { return pod.UID == left.UID }) {
		t.Error("the pod of the deleted node is gone, so the test has shown nothing")
	}
}

func patchPod(t *testing.T, s *harness.Space, name, patch string) {
	t.Helper()
	_, err := s.Cluster.Client.CoreV1().Pods(s.Name).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatalf("patching pod %s: %v", name, err)
	}
}

// TestOrderOfNodes: old pods are replaced in the order of the names of their nodes.
func TestOrderOfNodes(t *testing.T) {
	t.Parallel()
	const nodes = 5
	s := cluster(t).Space(t, nodes)
	onlyEverynode(t, s.Cluster, "upstream's controller takes nodes in the random order of a map")
	s.Run("ds")
	recorder := s.Observe("ds")
	written := s.Update("ds", harness.WithImage(harness.Image2))
	s.Wait("the roll ends", harness.RolledOut("ds", written.Generation, nodes), runsImage("ds", harness.Image2))
	s.Judge(recorder)
	var order []string
	for _, event := range recorder.Log() {
		pod, ok := event.Object.(*corev1.Pod)
		if ok && event.Type == watch.Modified && pod.DeletionTimestamp != nil && !slices.Contains(order, pod.Spec.NodeName) {
			order = append(order, pod.Spec.NodeName)
		}
	}
	if !slices.IsSorted(order) || len(order) != nodes {
		t.Errorf("nodes were rolled in the order %v", order)
	}
}
