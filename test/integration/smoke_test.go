// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/test/harness"
)

const smokeNodes = 20

// TestSmoke takes one set through its life: create, roll, undo, surge, OnDelete, orphan, adopt, delete.
func TestSmoke(t *testing.T) {
	s := cluster(t).Space(t, smokeNodes)
	set := s.Run("ds", harness.WithBudget("25%", "0"))
	recorder := s.Observe("ds")

	written := s.Update("ds", harness.WithImage(harness.Image2))
	s.Wait("the roll ends", harness.RolledOut("ds", written.Generation, smokeNodes), runsImage("ds", harness.Image2))

	s.Kubectl("rollout", "undo", "daemonset/ds")
	s.Wait("the undo ends", harness.RolledOut("ds", written.Generation+1, smokeNodes), runsImage("ds", harness.Image))

	surging := s.Update("ds", harness.WithBudget("0", "50%"), harness.WithImage(harness.Image3))
	s.Wait("the surge ends", harness.RolledOut("ds", surging.Generation, smokeNodes), runsImage("ds", harness.Image3))
	report := s.Judge(recorder)
	if report.MostSurging == 0 {
		t.Error("no node ever had two pods during the surge")
	}

	t.Run("OnDelete", func(t *testing.T) { smokeOnDelete(t, s.In(t)) })
	t.Run("OrphanAndAdopt", func(t *testing.T) { smokeOrphan(t, s.In(t)) })

	s.Kubectl("delete", "daemonset", "ds")
	s.Wait("everything of the set is deleted", harness.NoPods, noRevisions)
	if s.View().Set("ds") != nil && s.View().Set("ds").UID == set.UID {
		t.Error("the deleted set is still there")
	}
}

// smokeOnDelete: only the pod that somebody deletes is replaced.
func smokeOnDelete(t *testing.T, s *harness.Space) {
	before := harness.UIDs(s.View().Pods("ds"))
	written := s.Update("ds", harness.WithOnDelete, harness.WithImage(harness.Image))
	s.Wait("the new revision is known", harness.Observed("ds", written.Generation))
	victim := s.View().Pods("ds")[0]
	deletePod(t, s, victim)
	s.Wait("the deleted pod is replaced by a new one", func(v harness.View) error {
		pod := v.PodOn("ds", victim.Spec.NodeName)
		if pod == nil || pod.UID == victim.UID || !harness.Ready(pod) {
			return fmt.Errorf("node %s has no new ready pod", victim.Spec.NodeName)
		}
		if image := pod.Spec.Containers[0].Image; image != harness.Image {
			return fmt.Errorf("the new pod has image %s", image)
		}
		return nil
	})
	after := harness.UIDs(s.View().Pods("ds"))
	delete(before, victim.Spec.NodeName)
	delete(after, victim.Spec.NodeName)
	if !maps.Equal(before, after) {
		t.Errorf("pods changed that was not deleted: before %v, after %v", before, after)
	}
}

// smokeOrphan: the pods outlive their set and belong to the next one of the same template.
func smokeOrphan(t *testing.T, s *harness.Space) {
	old := s.View().Set("ds").DeepCopy()
	before := harness.UIDs(s.View().Pods("ds"))
	revisions := names(s.View())
	s.Kubectl("delete", "daemonset", "ds", "--cascade=orphan")
	s.Wait("the pods are orphans", orphans(old.UID, len(before)))
	again := s.Create("ds", harness.WithBudget("25%", "0"), harness.WithOnDelete, harness.WithImage(harness.Image))
	s.Wait("the new set has adopted the pods", harness.Observed("ds", again.Generation), func(v harness.View) error {
		if after := harness.UIDs(v.Pods("ds")); !maps.Equal(before, after) {
			return fmt.Errorf("pods before %v, now %v", before, after)
		}
		return nil
	})
	if now := names(s.View()); fmt.Sprint(now) != fmt.Sprint(revisions) {
		t.Errorf("revisions before %v, after the adoption %v", revisions, now)
	}
}

// runsImage is met when every pod of the set runs the image.
func runsImage(set, image string) harness.Condition {
	return harness.EachPod(set, "on image "+image, func(pod *corev1.Pod) bool { return pod.Spec.Containers[0].Image == image })
}

// orphans is met when that many pods are in the namespace and none has a controller.
func orphans(owner any, count int) harness.Condition {
	return func(v harness.View) error {
		pods := v.AllPods()
		if len(pods) != count {
			return fmt.Errorf("%d pods, want the %d of set %v", len(pods), count, owner)
		}
		for _, pod := range pods {
			if metav1.GetControllerOf(pod) != nil || pod.DeletionTimestamp != nil {
				return fmt.Errorf("pod %s is controlled or terminating", pod.Name)
			}
		}
		return nil
	}
}

func noRevisions(v harness.View) error {
	if left := names(v); len(left) > 0 {
		return fmt.Errorf("revisions %v are left", left)
	}
	return nil
}

// names are the names of the revisions, oldest first.
func names(v harness.View) []string {
	var out []string
	for _, revision := range v.Revisions() {
		out = append(out, revision.Name)
	}
	return out
}

func deletePod(t *testing.T, s *harness.Space, pod *corev1.Pod) {
	t.Helper()
	if err := s.Cluster.Client.CoreV1().Pods(s.Name).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatalf("deleting pod %s: %v", pod.Name, err)
	}
}
