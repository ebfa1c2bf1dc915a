// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/controller"

	"everynode.dev/everynode/test/harness"
)

// TestRevisionHistoryLimit: old revisions beyond the limit go, the oldest first, as soon as no pod has them.
func TestRevisionHistoryLimit(t *testing.T) {
	t.Parallel()
	const nodes = 2
	s := cluster(t).Space(t, nodes)
	s.Run("ds", harness.WithBudget("100%", "0"), historyLimit(2))
	for i := range 4 {
		written := s.Update("ds", harness.WithImage(fmt.Sprintf("registry.example/daemon:v%d", i)))
		s.Wait("the roll ends", harness.RolledOut("ds", written.Generation, nodes))
	}
	s.Wait("two old revisions and the current one are left", revisionNumbers(3, 4, 5))
	s.Update("ds", historyLimit(0))
	s.Wait("only the current one is left", revisionNumbers(5))
}

func revisionNumbers(want ...int64) harness.Condition {
	return func(v harness.View) error {
		var got []int64
		for _, revision := range v.Revisions() {
			got = append(got, revision.Revision)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("revisions %v, want %v", got, want)
		}
		return nil
	}
}

// TestLiveRevisionIsKept: a revision that a pod still has is not cleaned up, however small the limit.
func TestLiveRevisionIsKept(t *testing.T) {
	t.Parallel()
	const nodes = 2
	s := cluster(t).Space(t, nodes)
	s.Run("ds", harness.WithOnDelete, historyLimit(0))
	s.Update("ds", harness.WithImage(harness.Image2))
	written := s.Update("ds", harness.WithImage(harness.Image3))
	s.Wait("the first revision, which the pods have, is kept", harness.Observed("ds", written.Generation), revisionNumbersInclude(1))
}

func revisionNumbersInclude(number int64) harness.Condition {
	return func(v harness.View) error {
		for _, revision := range v.Revisions() {
			if revision.Revision == number {
				return nil
			}
		}
		return fmt.Errorf("no revision %d among %v", number, names(v))
	}
}

// TestRevisionIsWhatUpstreamWrites: name, labels, number and owner of a ControllerRevision, and its data.
func TestRevisionIsWhatUpstreamWrites(t *testing.T) {
	t.Parallel()
	s := cluster(t).Space(t, 1)
	set := s.Run("ds", func(set *daemonSet) { set.Annotations = map[string]string{"kubernetes.io/change-cause": "first"} })
	revisions := s.View().Revisions()
	if len(revisions) != 1 {
		t.Fatalf("%d revisions, want 1", len(revisions))
	}
	revision := revisions[0]
	hash := controller.ComputeHash(&set.Spec.Template, nil)
	if revision.Name != "ds-"+hash || revision.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] != hash || revision.Labels["app"] != "ds" {
		t.Errorf("revision %s with labels %v, want hash %s", revision.Name, revision.Labels, hash)
	}
	if revision.Revision != 1 || revision.Annotations["kubernetes.io/change-cause"] != "first" {
		t.Errorf("number %d, annotations %v", revision.Revision, revision.Annotations)
	}
	if owner := metav1.GetControllerOf(revision); owner == nil || owner.UID != set.UID || owner.Kind != "DaemonSet" {
		t.Errorf("owner %+v", owner)
	}
	if pod := s.View().Pods("ds")[0]; pod.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] != hash {
		t.Errorf("pod %s has labels %v, want hash %s", pod.Name, pod.Labels, hash)
	}
}

// TestHashCollision: the name that the next revision would get is taken by something else; the collision is counted and
// another name found.
func TestHashCollision(t *testing.T) {
	t.Parallel()
	const nodes = 2
	s := cluster(t).Space(t, nodes)
	set := s.Run("ds")
	next := set.DeepCopy()
	harness.WithImage(harness.Image2)(next)
	name := "ds-" + controller.ComputeHash(&next.Spec.Template, nil)
	_, err := s.Cluster.Client.AppsV1().ControllerRevisions(s.Name).Create(t.Context(), &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.Name},
		Data:       runtime.RawExtension{Raw: []byte(`{"somebody":"else"}`)},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating revision %s: %v", name, err)
	}
	written := s.Update("ds", harness.WithImage(harness.Image2))
	s.Wait("the roll ends in spite of it", harness.RolledOut("ds", written.Generation, nodes), runsImage("ds", harness.Image2),
		harness.StatusIs("ds", "one collision counted", func(status status) bool {
			return status.CollisionCount != nil && *status.CollisionCount == 1
		}))
	one := int32(1)
	hash := controller.ComputeHash(&next.Spec.Template, &one)
	for _, pod := range s.View().Pods("ds") {
		if pod.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] != hash {
			t.Errorf("pod %s has labels %v, want hash %s", pod.Name, pod.Labels, hash)
		}
	}
}

// TestConditionsOfOthersAreKept: the controller writes its numbers and leaves conditions to whoever set them.
func TestConditionsOfOthersAreKept(t *testing.T) {
	t.Parallel()
	const nodes = 2
	s := cluster(t).Space(t, nodes)
	s.Run("ds")
	patchStatus(t, s, "ds", `{"status":{"conditions":[{"type":"example.org/Checked","status":"True","reason":"Test","message":"kept"}]}}`)
	written := s.Update("ds", harness.WithImage(harness.Image2))
	s.Wait("the roll ends", harness.RolledOut("ds", written.Generation, nodes), runsImage("ds", harness.Image2))
	conditions := s.View().Set("ds").Status.Conditions
	if len(conditions) != 1 || conditions[0].Type != "example.org/Checked" || conditions[0].Message != "kept" {
		t.Errorf("conditions %+v, want the one of the test", conditions)
	}
}
