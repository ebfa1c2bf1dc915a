// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
)

const jsonPatch = types.JSONPatchType

// TestPulls: what the agents have pulled, the kubelets do not pull.
func TestPulls(t *testing.T) {
	t.Run("Job", pulledByJob)
	t.Run("WaitForImage", pulledBeforeTheRoll)
}

// pulledByJob: an ImagePullJob has the image pulled on all nodes; the update after it pulls nothing.
func pulledByJob(t *testing.T) {
	s := newStage(t, advancedInPlace())
	s.run()
	before := s.pods()
	image := s.push("job-" + s.Name)
	asked := len(s.requests())
	s.pullAhead(image)
	s.fetched(s.requests()[asked:])
	asked = len(s.requests())
	s.roll(image)
	s.keptPods(before)
	if more := s.requests()[asked:]; len(more) != 0 {
		t.Errorf("after the job the update has asked the registry: %+v", more)
	}
	s.ran(set, "v1", "job-"+s.Name)
}

// pullAhead has the agents pull an image on all nodes, by an ImagePullJob, and waits for it.
func (s *stage) pullAhead(image string) {
	s.t.Helper()
	jobs := s.Cluster.Dynamic.Resource(v1beta1.GroupVersion().WithResource("imagepulljobs")).Namespace(s.Name)
	job := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1beta1.GroupVersion().String(), "kind": "ImagePullJob", "metadata": map[string]any{"generateName": "pull-"},
		"spec": map[string]any{"image": image, "parallelism": int64(count), "completionPolicy": map[string]any{"type": "Always"}},
	}}
	job, err := jobs.Create(s.Context(), job, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatalf("creating an ImagePullJob: %v", err)
	}
	s.Poll("all nodes have pulled "+image, func() error {
		now, err := jobs.Get(s.Context(), job.GetName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		if succeeded, _, _ := unstructured.NestedInt64(now.Object, "status", "succeeded"); succeeded != count {
			return fmt.Errorf("the job says %v", now.Object["status"])
		}
		return nil
	})
}

// fetched fails unless each node has fetched parts of an image.
func (s *stage) fetched(requests []request) {
	s.t.Helper()
	parts := map[string]int{}
	for _, r := range requests {
		if r.content() {
			parts[r.Remote]++
		}
	}
	for _, node := range s.Nodes {
		if parts[s.address(node)] == 0 {
			s.t.Errorf("node %s has fetched nothing, says the log of the registry: %+v", node, requests)
		}
	}
}

// pulledBeforeTheRoll: a roll that waits for images has them pulled, and does not touch a pod before.
func pulledBeforeTheRoll(t *testing.T) {
	k := advancedRecreate()
	k.annotations = map[string]string{everynode.WaitForImage: "true", kruise.PredownloadParallelism: fmt.Sprint(count)}
	s := newStage(t, k)
	s.run()
	recorder := s.ObserveAdvanced(set)
	image := s.push("wait-" + s.Name)
	asked := len(s.requests())
	s.roll(image)
	s.Judge(recorder)
	requests := s.requests()[asked:]
	s.fetched(requests)
	s.ran(set, "v1", "wait-"+s.Name)
	for _, node := range s.Nodes {
		stopped := s.journal(node)[1]
		for _, r := range requests {
			if r.Remote == s.address(node) && r.Time.After(stopped.Time) {
				t.Errorf("node %s has asked the registry after its pod was told to go, at %s: %+v", node, stopped.Time, r)
			}
		}
	}
}
