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

	"everynode.dev/everynode/api/everynode"
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
		{"drain-evicts-the-pods", 2, false, drain},
		{"drain-keeps-the-pods-where-asked-for", 2, false, drainKeeps},
		{"drain-lets-the-pods-leave-last", 2, false, drainLeavesLast},
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

// drain: kubectl knows only the DaemonSets of apps/v1, so it evicts pods of Advanced ones unless a selector leaves them out.
func drain(s *stage) {
	s.run()
	before, node := s.uids(), s.Nodes[0]
	s.Kubectl("drain", node, "--ignore-daemonsets", "--pod-selector=app!=agent")
	s.rolled()
	s.samePods(before)
	s.recorder.Excuse(before[node])
	out, err := s.KubectlWith("", "drain", node, "--ignore-daemonsets", "--force", "--timeout=60s")
	if err != nil {
		s.t.Fatalf("kubectl drain: %v\n%s", err, out)
	}
	s.wantOutput(out, "evict")
	s.rolled(s.replaced(before, node)) // the set puts it back, since its pods tolerate nodes that are unschedulable
	s.Kubectl("uncordon", node)
}

// drainKeeps: in a namespace with the label, evictions are answered so that kubectl takes the pods for gone, and continues. A pod that is deleted is replaced.
func drainKeeps(s *stage) {
	s.Kubectl("label", "namespace", s.Name, everynode.KeepDaemonPods+"=true")
	s.run()
	before, node := s.uids(), s.Nodes[0]
	out, err := s.KubectlWith("", "drain", node, "--ignore-daemonsets", "--force", "--timeout=60s") // a kubectl before 1.34 needs --force
	if err != nil {
		s.t.Fatalf("kubectl drain: %v\n%s", err, out)
	}
	s.wantOutput(out, "node/"+node+" drained")
	s.rolled()
	s.samePods(before)
	s.recorder.Excuse(before[node])
	out, err = s.KubectlWith("", "drain", node, "--ignore-daemonsets", "--disable-eviction", "--force", "--timeout=60s")
	if err != nil {
		s.t.Fatalf("kubectl drain --disable-eviction: %v\n%s", err, out)
	}
	s.rolled(s.replaced(before, node))
	s.Kubectl("uncordon", node)
}

// drainLeavesLast: on a node that is removed, pods of a set that asks for it are evicted when those of other workloads have gone.
func drainLeavesLast(s *stage) {
	s.Kubectl("label", "namespace", s.Name, everynode.KeepDaemonPods+"=true")
	s.run(`metadata: {annotations: {everynode.dev/leave-last-seconds: "600"}}`)
	before, node := s.uids(), s.Nodes[0]
	s.Kubectl("taint", "node", node, "example.com/removed=now:NoSchedule")
	other := fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: other, finalizers: [example.com/hold]}
spec: {nodeName: %q, tolerations: [{operator: Exists}], containers: [{name: other, image: "registry.example/agent:1"}]}`, node)
	if out, err := s.KubectlWith(other, "apply", "-f", "-"); err != nil {
		s.t.Fatalf("%v\n%s", err, out)
	}
	out, err := s.KubectlWith("", "drain", node, "--ignore-daemonsets", "--force", "--timeout=12s")
	if err == nil {
		s.t.Errorf("the node is drained although a pod of another workload is left:\n%s", out)
	}
	s.wantOutput(out, "leave last, for 10m0s at most: 1 pod of another workload is on node "+node)
	if pod := podOf(s, node, before[node]); pod == nil || pod.DeletionTimestamp != nil {
		s.t.Errorf("the pod of node %s has left before the other one", node)
	}
	s.recorder.Excuse(before[node])
	s.Kubectl("patch", "pod", "other", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	if out, err := s.KubectlWith("", "drain", node, "--ignore-daemonsets", "--force", "--timeout=60s"); err != nil {
		s.t.Fatalf("kubectl drain: %v\n%s", err, out)
	}
	s.rolledOn(len(s.Nodes) - 1)
	s.Kubectl("taint", "node", node, "example.com/removed-")
	s.Kubectl("uncordon", node)
	s.rolled(s.replaced(before, node))
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
