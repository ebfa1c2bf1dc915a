// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/test/harness"
)

// TestEndedPods: a pod that failed or succeeded is replaced, and an event says so.
func TestEndedPods(t *testing.T) {
	t.Parallel()
	s := cluster(t).Space(t, 2)
	tests := []struct {
		phase        corev1.PodPhase
		kind, reason string
		message      string
	}{
		{corev1.PodFailed, corev1.EventTypeWarning, "FailedDaemonPod", "Found failed daemon pod %s/%s on node %s, will try to kill it"},
		{corev1.PodSucceeded, corev1.EventTypeNormal, "SucceededDaemonPod", "Found succeeded daemon pod %s/%s on node %s, will try to delete it"},
	}
	for _, test := range tests {
		t.Run(string(test.phase), func(t *testing.T) {
			s := s.In(t)
			name := strings.ToLower(string(test.phase))
			s.Run(name)
			victim := s.View().PodOn(name, s.Nodes[0])
			other := s.View().PodOn(name, s.Nodes[1]).UID
			recorder := s.Observe(name)
			endPod(t, s, victim, test.phase)
			s.Wait("the pod is replaced and an event tells it", harness.RolledOut(name, 1, 2), replaced(name, victim),
				harness.HasEvent(name, test.kind, test.reason))
			want := fmt.Sprintf(test.message, s.Name, victim.Name, s.Nodes[0])
			if got := s.View().Event(name, test.reason).Message; got != want {
				t.Errorf("message %q, want %q", got, want)
			}
			if s.View().PodOn(name, s.Nodes[1]).UID != other {
				t.Error("the pod of the other node was replaced too")
			}
			s.Judge(recorder) // the successor comes after the ended pod was deleted, never beside it
		})
	}
}

func endPod(t *testing.T, s *harness.Space, pod *corev1.Pod, phase corev1.PodPhase) {
	t.Helper()
	ended := pod.DeepCopy()
	ended.ResourceVersion = ""
	ended.Status.Phase = phase
	if _, err := s.Cluster.Client.CoreV1().Pods(s.Name).UpdateStatus(t.Context(), ended, metav1.UpdateOptions{}); err != nil {
		t.Fatalf("ending pod %s: %v", pod.Name, err)
	}
}

// replaced is met when the victim is gone and its node has another pod of the set.
func replaced(set string, victim *corev1.Pod) harness.Condition {
	return func(v harness.View) error {
		pod := v.PodOn(set, victim.Spec.NodeName)
		if pod == nil || pod.UID == victim.UID {
			return fmt.Errorf("node %s has no new pod", victim.Spec.NodeName)
		}
		return nil
	}
}

// TestDeletedPodComesBack: somebody deletes pods; each comes back once, never beside the one that terminates.
func TestDeletedPodComesBack(t *testing.T) {
	t.Parallel()
	s := cluster(t).Space(t, 3)
	s.Run("ds", harness.WithBudget("100%", "0"))
	recorder := s.Observe("ds")
	for _, pod := range s.View().Pods("ds") {
		deletePod(t, s, pod)
		s.Wait("the pod is replaced", replaced("ds", pod))
	}
	s.Wait("all is well again", harness.RolledOut("ds", 1, 3))
	if report := s.Judge(recorder); len(report.Created) != 3 {
		t.Errorf("pods %v were created for 3 that were deleted", report.Created)
	}
}

// TestReleaseAndAdopt: a pod whose labels stop matching is let go and replaced; when they match again it is taken back,
// and of the two pods of the node the older one stays.
func TestReleaseAndAdopt(t *testing.T) {
	t.Parallel()
	s := cluster(t).Space(t, 2)
	s.Run("ds")
	pod := s.View().PodOn("ds", s.Nodes[0])
	labelPod(t, s, pod, `"stray"`)
	s.Wait("the pod is released and replaced", harness.RolledOut("ds", 1, 2), replaced("ds", pod), func(v harness.View) error {
		for _, p := range v.AllPods() {
			if p.UID == pod.UID && metav1.GetControllerOf(p) == nil && p.DeletionTimestamp == nil {
				return nil
			}
		}
		return fmt.Errorf("pod %s does not run on without a controller", pod.Name)
	})
	labelPod(t, s, pod, `"ds"`)
	s.Wait("the older pod is back and the newer one gone", harness.RolledOut("ds", 1, 2), func(v harness.View) error {
		if now := v.PodOn("ds", s.Nodes[0]); now == nil || now.UID != pod.UID {
			return fmt.Errorf("node %s does not have its first pod", s.Nodes[0])
		}
		return nil
	})
}

func labelPod(t *testing.T, s *harness.Space, pod *corev1.Pod, value string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{"app":%s}}}`, value)
	_, err := s.Cluster.Client.CoreV1().Pods(s.Name).Patch(t.Context(), pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatalf("labelling pod %s: %v", pod.Name, err)
	}
}

// TestDuplicatesOnANode: of several pods that match on one node the oldest stays.
func TestDuplicatesOnANode(t *testing.T) {
	t.Parallel()
	s := cluster(t).Space(t, 1)
	s.Run("ds")
	first := s.View().Pods("ds")[0]
	for i := range 2 {
		stray := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("stray-%d", i), Namespace: s.Name,
			Labels: first.Labels,
		}, Spec: corev1.PodSpec{
			NodeName: s.Nodes[0], TerminationGracePeriodSeconds: new(int64(1)),
			Containers: []corev1.Container{{Name: "daemon", Image: harness.Image}},
		}}
		if _, err := s.Cluster.Client.CoreV1().Pods(s.Name).Create(t.Context(), stray, metav1.CreateOptions{}); err != nil {
			t.Fatalf("creating a stray pod: %v", err)
		}
	}
	s.Wait("only the oldest pod is left", harness.RolledOut("ds", 1, 1), func(v harness.View) error {
		if pods := v.AllPods(); len(pods) != 1 || pods[0].UID != first.UID {
			return fmt.Errorf("%d pods, the first is %s, want only %s", len(pods), pods[0].Name, first.Name)
		}
		return nil
	})
	if s.View().Event("ds", "SuccessfulDelete") == nil {
		t.Error("no event SuccessfulDelete")
	}
}

// TestDeletedNode: what becomes of the pods of a node that is deleted.
func TestDeletedNode(t *testing.T) {
	t.Parallel()
	s := cluster(t).Space(t, 2)
	s.Run("running")
	s.Create("waiting", func(set *daemonSet) {
		set.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: tooMuch}
	})
	s.Wait("pods that fit nowhere wait", func(v harness.View) error {
		if pods := v.Pods("waiting"); len(pods) != 2 || pods[0].Spec.NodeName != "" {
			return fmt.Errorf("%d pods of set waiting", len(pods))
		}
		return nil
	})
	s.RemoveNode(s.Nodes[0])
	s.Wait("the pod that never was scheduled is removed", func(v harness.View) error {
		if pods := v.Pods("waiting"); len(pods) != 1 {
			return fmt.Errorf("%d pods of set waiting", len(pods))
		}
		return nil
	}, harness.StatusIs("running", "1 desired", func(status status) bool {
		return status.DesiredNumberScheduled == 1 && status.NumberAvailable == 1 && status.NumberMisscheduled == 0
	}))
	s.Wait("the garbage collector removes the other", harness.RolledOut("running", 1, 1))
}

// TestRefusedPods: when the API server refuses some of the pods, the others run, the status and an event say so, and the
// rest follows when it may.
func TestRefusedPods(t *testing.T) {
	t.Parallel()
	const nodes, allowed = 3, 1
	s := cluster(t).Space(t, nodes)
	quotas := s.Cluster.Client.CoreV1().ResourceQuotas(s.Name)
	_, err := quotas.Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "few"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating a quota: %v", err)
	}
	s.Create("ds")
	s.Wait("one pod runs, the status tells of the others and so does an event", harness.Observed("ds", 1),
		harness.HasEvent("ds", corev1.EventTypeWarning, "FailedCreate"),
		harness.StatusIs("ds", "3 desired, 1 available, 2 unavailable", func(status status) bool {
			return status.DesiredNumberScheduled == nodes && status.NumberAvailable == allowed && status.NumberUnavailable == nodes-allowed
		}))
	if err := quotas.Delete(t.Context(), "few", metav1.DeleteOptions{}); err != nil {
		t.Fatalf("deleting the quota: %v", err)
	}
	s.Wait("the others follow", harness.RolledOut("ds", 1, nodes))
}

// TestNewNode: a node that joins gets its pod.
func TestNewNode(t *testing.T) {
	t.Parallel()
	s := cluster(t).Space(t, 1)
	s.Run("ds")
	s.AddNode()
	s.Wait("the new node has a pod", harness.RolledOut("ds", 1, 2), harness.RunsOn("ds", s.Nodes...))
}
