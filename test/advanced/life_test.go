// SPDX-License-Identifier: Apache-2.0

package advanced

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/test/harness"
)

// lifeScenarios are about sets that are deleted, adopted, and live beside others.
func lifeScenarios() []scenario {
	return []scenario{
		{"delete-in-the-background", 2, false, deleteWith("background")},
		{"delete-in-the-foreground", 2, false, deleteWith("foreground")},
		{"orphan-and-adopt", 2, false, orphanAndAdopt},
		{"orphan-and-adopt-in-v1alpha1", 2, false, orphanAndAdoptInAlpha},
		{"two-sets-on-the-same-nodes", 2, false, twoSets},
		{"native-set-of-the-same-name", 2, false, nativeBeside},
	}
}

func deleteWith(cascade string) func(s *stage) {
	return func(s *stage) {
		s.run()
		s.Kubectl("delete", "ads", s.name, "--cascade="+cascade)
		s.Wait("pods and history are collected", harness.NoPods, numbers())
	}
}

func orphanAndAdopt(s *stage) { s.orphan() }

func orphanAndAdoptInAlpha(s *stage) { s.merge(alpha); s.orphan() }

// orphan deletes the set without its pods, and makes it again: it takes them back.
func (s *stage) orphan() {
	s.run()
	before := s.uids()
	s.Kubectl("delete", "ads", s.name, "--cascade=orphan")
	s.Wait("the pods are orphans", func(v harness.View) error {
		for _, pod := range v.AllPods() {
			if metav1.GetControllerOf(pod) != nil || pod.DeletionTimestamp != nil {
				return fmt.Errorf("pod %s is controlled or terminating", pod.Name)
			}
		}
		return nil
	})
	s.run()
	s.samePods(before)
	s.Wait("the history is taken back too", numbers(1))
}

// twoSets: another set with other labels on the same nodes changes nothing for this one.
func twoSets(s *stage) {
	s.run()
	before := s.uids()
	s.start(strings.ReplaceAll(agent, "agent}", "other}"))
	s.run()
	s.roll(two)
	s.Kubectl("delete", "ads", "other")
	s.Wait("only the pods of the first set are left", func(v harness.View) error {
		if left := harness.UIDs(v.AllPods()); len(v.AllPods()) != len(before) || left[s.Nodes[0]] != before[s.Nodes[0]] {
			return fmt.Errorf("pods %v", left)
		}
		return nil
	})
}

// nativeBeside: a DaemonSet of apps/v1 of the same name is another set.
func nativeBeside(s *stage) {
	s.run()
	before := s.uids()
	native := strings.NewReplacer("apps.kruise.io/v1beta1", "apps/v1", "{app: agent}", "{app: native}").Replace(agent)
	native = strings.Replace(native, "terminationGracePeriodSeconds: 1", fmt.Sprintf("nodeSelector: {%s: %s}", harness.PoolLabel, s.Name), 1)
	if out, err := s.KubectlWith(native, "apply", "-f", "-"); err != nil {
		s.t.Fatalf("kubectl apply: %v\n%s", err, out)
	}
	s.Kubectl("rollout", "status", "daemonset.apps/agent", "--timeout=60s")
	s.Wait("each has its pods", func(v harness.View) error {
		owned := map[string]int{}
		for _, pod := range v.AllPods() {
			if owner := metav1.GetControllerOf(pod); owner != nil {
				owned[owner.APIVersion]++
			}
		}
		if owned["apps/v1"] != 2 || len(v.AllPods()) != 4 {
			return fmt.Errorf("pods by owner: %v", owned)
		}
		return nil
	})
	for node, uid := range before {
		if pod := podOf(s, node, uid); pod == nil || pod.DeletionTimestamp != nil {
			s.t.Errorf("the pod of node %s is gone", node)
		}
	}
}

func podOf(s *stage, node string, uid types.UID) *corev1.Pod {
	for _, pod := range s.View().AllPods() {
		if pod.Spec.NodeName == node && pod.UID == uid {
			return pod
		}
	}
	return nil
}

func asJSON(t testing.TB, value any) string {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
