// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/test/harness"
)

// TestKubectlRollout: status, history, undo and restart of kubectl do what they do with upstream's controller.
func TestKubectlRollout(t *testing.T) {
	t.Parallel()
	const nodes = 3
	s := cluster(t).Space(t, nodes)
	s.Create("ds", harness.WithBudget("2", "0"))
	wantOutput(t, s.Kubectl("rollout", "status", "daemonset/ds", "--timeout=90s"), `daemon set "ds" successfully rolled out`)

	s.Kubectl("set", "image", "daemonset/ds", "daemon="+harness.Image2)
	wantOutput(t, s.Kubectl("rollout", "status", "daemonset/ds", "--timeout=90s"), `daemon set "ds" successfully rolled out`)
	s.Wait("the first roll ends", runsImage("ds", harness.Image2))
	wantRevisions(t, s, "1", "2")
	wantOutput(t, s.Kubectl("rollout", "history", "daemonset/ds", "--revision=1"), "Image:\t"+harness.Image)
	wantOutput(t, s.Kubectl("rollout", "history", "daemonset/ds", "--revision=2"), "Image:\t"+harness.Image2)

	wantOutput(t, s.Kubectl("rollout", "undo", "daemonset/ds"), "rolled back")
	s.Wait("the undo ends", harness.RolledOut("ds", 3, nodes), runsImage("ds", harness.Image))
	wantRevisions(t, s, "2", "3") // revision 1 became 3, none was added

	s.Kubectl("rollout", "undo", "daemonset/ds", "--to-revision=2")
	s.Wait("the undo to revision 2 ends", harness.RolledOut("ds", 4, nodes), runsImage("ds", harness.Image2))
	wantRevisions(t, s, "3", "4")

	before := harness.UIDs(s.View().Pods("ds"))
	s.Kubectl("rollout", "restart", "daemonset/ds")
	s.Wait("the restart ends", harness.RolledOut("ds", 5, nodes), func(v harness.View) error {
		for node, uid := range harness.UIDs(v.Pods("ds")) {
			if before[node] == uid {
				return fmt.Errorf("the pod on %s is still the one from before the restart", node)
			}
		}
		return nil
	}, harness.EachPod("ds", "annotated by the restart", func(pod *corev1.Pod) bool {
		return pod.Annotations["kubectl.kubernetes.io/restartedAt"] != ""
	}))
}

func wantOutput(t *testing.T, got, want string) {
	t.Helper()
	if !strings.Contains(got, want) {
		t.Fatalf("output lacks %q:\n%s", want, got)
	}
}

// wantRevisions compares the numbers that `kubectl rollout history` shows.
func wantRevisions(t *testing.T, s *harness.Space, want ...string) {
	t.Helper()
	var got []string
	for _, line := range strings.Split(s.Kubectl("rollout", "history", "daemonset/ds"), "\n") {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0][0] >= '0' && fields[0][0] <= '9' {
			got = append(got, fields[0])
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("history shows revisions %v, want %v", got, want)
	}
}

// TestUndoOfABrokenRoll: a roll that is stuck on a broken image is undone; pods that it had not reached are not restarted.
func TestUndoOfABrokenRoll(t *testing.T) {
	t.Parallel()
	const nodes = 4
	s := cluster(t).Space(t, nodes)
	s.Run("ds")
	before := harness.UIDs(s.View().Pods("ds"))
	recorder := s.Observe("ds")
	s.Update("ds", harness.WithImage(harness.BrokenImage))
	s.Wait("one node is stuck", func(v harness.View) error {
		for _, pod := range v.Pods("ds") {
			if pod.Spec.Containers[0].Image == harness.BrokenImage && pod.Spec.NodeName != "" {
				return nil
			}
		}
		return fmt.Errorf("no pod has the broken image yet")
	})
	s.Kubectl("rollout", "undo", "daemonset/ds")
	s.Wait("the undo ends", harness.RolledOut("ds", 3, nodes), runsImage("ds", harness.Image))
	changed := 0
	for node, uid := range harness.UIDs(s.View().Pods("ds")) {
		if before[node] != uid {
			changed++
		}
	}
	if changed != 1 {
		t.Errorf("the pods of %d nodes were replaced, want 1", changed)
	}
	s.Judge(recorder)
}

// TestDelete: the three ways to delete a set.
func TestDelete(t *testing.T) {
	t.Parallel()
	const nodes = 2
	s := cluster(t).Space(t, nodes)

	t.Run("Background", func(t *testing.T) {
		s := s.In(t)
		s.Run("ds")
		s.Kubectl("delete", "daemonset", "ds")
		s.Wait("pods and history are collected", harness.NoPods, noRevisions)
	})
	t.Run("Foreground", func(t *testing.T) {
		s := s.In(t)
		s.Run("ds")
		recorder := s.Observe("ds")
		s.Kubectl("delete", "daemonset", "ds", "--cascade=foreground")
		s.Wait("pods and history are collected", harness.NoPods, noRevisions)
		report, err := recorder.Finish(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(report.Created) != 0 {
			t.Errorf("pods %v were created for a set that is being deleted", report.Created)
		}
	})
	for name, spelling := range map[string]string{"Orphan": "orphan", "OrphanOlderSpelling": "false"} {
		t.Run(name, func(t *testing.T) { orphanAndAdopt(t, s.In(t), spelling) })
	}
}

// orphanAndAdopt deletes a set without its pods and makes it anew: it takes the same pods and history.
func orphanAndAdopt(t *testing.T, s *harness.Space, spelling string) {
	set := s.Run("ds")
	before, history := harness.UIDs(s.View().Pods("ds")), names(s.View())
	s.Kubectl("delete", "daemonset", "ds", "--cascade="+spelling)
	s.Wait("the pods are orphans", orphans(set.UID, len(s.Nodes)))
	again := s.Create("ds")
	s.Wait("the new set has them", harness.RolledOut("ds", again.Generation, len(s.Nodes)))
	if after := harness.UIDs(s.View().Pods("ds")); !maps.Equal(before, after) {
		t.Errorf("pods before %v, after %v", before, after)
	}
	if now := names(s.View()); fmt.Sprint(now) != fmt.Sprint(history) {
		t.Errorf("history before %v, after %v", history, now)
	}
	// The watch of revisions may be behind that of sets.
	s.Wait("the history is the new set's", func(v harness.View) error {
		for _, revision := range v.Revisions() {
			if owner := metav1.GetControllerOf(revision); owner == nil || owner.UID != again.UID {
				return fmt.Errorf("revision %s is not adopted", revision.Name)
			}
		}
		return nil
	})
	s.Kubectl("delete", "daemonset", "ds")
	s.Wait("everything is collected", harness.NoPods, noRevisions)
}
