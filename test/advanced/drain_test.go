// SPDX-License-Identifier: Apache-2.0

package advanced

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/test/harness"
)

// kubectls is a directory with a directory for each version, such as 1.34.4/kubectl.
var kubectls = flag.String("kubectls", "", "a directory with a kubectl of each version of Kubernetes (make build-kubectls)")

// drainScenarios are about nodes that kubectl drains.
func drainScenarios() []scenario {
	return []scenario{
		{"drain-evicts-the-pods", 2, false, drainEvicts},
		{"drain-keeps-the-pods-where-asked-for", 2, false, drainKeeps},
		{"drain-of-a-node-with-both-kinds-of-sets", 2, false, drainBoth},
		{"drain-lets-the-pods-leave-last", 2, false, drainLeavesLast},
	}
}

// TestKubectlOfEachMinor drains nodes with the kubectl of each supported version of Kubernetes, as it was released.
func TestKubectlOfEachMinor(t *testing.T) {
	if *kubectls == "" {
		t.Skip("no kubectl of other versions: run make test SUITE=drain")
	}
	dirs, err := filepath.Glob(filepath.Join(*kubectls, "1.*"))
	if err != nil || len(dirs) < 4 {
		t.Fatalf("%s has the versions %v (%v), want at least 4: run make build-kubectls", *kubectls, dirs, err)
	}
	for _, dir := range dirs {
		program, version := filepath.Join(dir, "kubectl"), "v"+filepath.Base(dir)
		t.Run(version, func(t *testing.T) {
			out, err := exec.CommandContext(t.Context(), program, "version", "--client", "-o", "json").Output()
			var is struct{ ClientVersion struct{ GitVersion string } }
			if err := json.Unmarshal(out, &is); err != nil || is.ClientVersion.GitVersion != version {
				t.Fatalf("%s says %s (%v), want version %s", program, out, err, version)
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, sc := range drainScenarios() {
				t.Run(sc.name, func(t *testing.T) {
					t.Parallel()
					play(t, cluster(t), scenario{sc.name, sc.nodes, false, func(s *stage) {
						s.kubectl = program
						sc.play(s)
					}})
				})
			}
		})
	}
}

// drain runs kubectl drain with the kubectl of the stage, never the machine's own.
func (s *stage) drain(node string, args ...string) (string, error) {
	s.t.Helper()
	args = append([]string{"drain", node, "--ignore-daemonsets"}, args...)
	program := s.kubectl
	if program == "" {
		program = filepath.Join(harness.BinDir(), "localplane")
		args = append([]string{"kubectl", "--dir", s.Cluster.Plane.Dir()}, args...)
	}
	command := exec.CommandContext(s.Context(), program, args...)
	command.Env = append(os.Environ(), "PATH=", "KUBECONFIG="+s.Cluster.Plane.Kubeconfig()) // without a kubectl in the path, localplane is one
	out, err := command.CombinedOutput()
	return string(out), err
}

// otherPod creates a pod of no set on a node, which tolerates everything, with further metadata.
func (s *stage) otherPod(node, meta string) {
	s.t.Helper()
	other := fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: other, %s}
spec: {nodeName: %q, tolerations: [{operator: Exists}], containers: [{name: other, image: "registry.example/agent:1"}]}`, meta, node)
	if out, err := s.KubectlWith(other, "apply", "-f", "-"); err != nil {
		s.t.Fatalf("%v\n%s", err, out)
	}
}

// drainEvicts: kubectl knows only the DaemonSets of apps/v1, so it evicts pods of Advanced ones unless a selector leaves them out.
func drainEvicts(s *stage) {
	s.run()
	before, node := s.uids(), s.Nodes[0]
	if out, err := s.drain(node, "--pod-selector=app!=agent"); err != nil {
		s.t.Fatalf("kubectl drain: %v\n%s", err, out)
	}
	s.rolled()
	s.samePods(before)
	s.recorder.Excuse(before[node])
	out, err := s.drain(node, "--timeout=60s")
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
	out, err := s.drain(node, "--timeout=60s")
	if err != nil {
		s.t.Fatalf("kubectl drain: %v\n%s", err, out)
	}
	s.wantOutput(out, "node/"+node+" drained")
	s.rolled()
	s.samePods(before)
	s.recorder.Excuse(before[node])
	out, err = s.drain(node, "--disable-eviction", "--timeout=60s")
	if err != nil {
		s.t.Fatalf("kubectl drain --disable-eviction: %v\n%s", err, out)
	}
	s.rolled(s.replaced(before, node))
	s.Kubectl("uncordon", node)
}

// drainBoth: on a node with a native and, in a namespace that asks for that, an Advanced set, the pods of both stay, and the pod of another workload is evicted.
func drainBoth(s *stage) {
	s.Kubectl("label", "namespace", s.Name, everynode.KeepDaemonPods+"=true")
	s.run()
	native := strings.NewReplacer("apps.kruise.io/v1beta1", "apps/v1", "agent}", "native}").Replace(agent)
	native = strings.Replace(native, "terminationGracePeriodSeconds: 1", fmt.Sprintf("nodeSelector: {%s: %s}", harness.PoolLabel, s.Name), 1)
	if out, err := s.KubectlWith(native, "apply", "-f", "-"); err != nil {
		s.t.Fatalf("kubectl apply: %v\n%s", err, out)
	}
	s.Kubectl("rollout", "status", "daemonset.apps/native", "--timeout=60s")
	node := s.Nodes[0]
	s.otherPod(node, "labels: {app: other}")
	before := harness.UIDs(s.View().Pods("native"))
	own := s.uids()
	out, err := s.drain(node, "--force", "--timeout=60s")
	if err != nil {
		s.t.Fatalf("kubectl drain: %v\n%s", err, out)
	}
	s.wantOutput(out, "evicting pod "+s.Name+"/other", "node/"+node+" drained", "DaemonSet-managed Pods: "+s.Name+"/native-")
	s.Wait("the other pod has gone", func(v harness.View) error {
		for _, pod := range v.AllPods() {
			if pod.Name == "other" {
				return fmt.Errorf("pod %s is on node %s", pod.Name, pod.Spec.NodeName)
			}
		}
		return nil
	})
	s.samePods(own)
	if after := harness.UIDs(s.View().Pods("native")); len(after) != len(s.Nodes) || !maps.Equal(before, after) {
		s.t.Errorf("native pods before %v, after %v", before, after)
	}
	s.Kubectl("uncordon", node)
}

// drainLeavesLast: on a node that is removed, pods of a set that asks for it are evicted when those of other workloads have gone.
func drainLeavesLast(s *stage) {
	s.Kubectl("label", "namespace", s.Name, everynode.KeepDaemonPods+"=true")
	s.run(`metadata: {annotations: {everynode.dev/leave-last-seconds: "600"}}`)
	before, node := s.uids(), s.Nodes[0]
	s.Kubectl("taint", "node", node, "example.com/removed=now:NoSchedule")
	s.otherPod(node, "finalizers: [example.com/hold]")
	out, err := s.drain(node, "--force", "--timeout=12s")
	if err == nil {
		s.t.Errorf("the node is drained although a pod of another workload is left:\n%s", out)
	}
	s.wantOutput(out, "leave last, for 10m0s at most: 1 pod of another workload is on node "+node)
	if pod := podOf(s, node, before[node]); pod == nil || pod.DeletionTimestamp != nil {
		s.t.Errorf("the pod of node %s has left before the other one", node)
	}
	s.recorder.Excuse(before[node])
	s.Kubectl("patch", "pod", "other", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	if out, err := s.drain(node, "--force", "--timeout=60s"); err != nil {
		s.t.Fatalf("kubectl drain: %v\n%s", err, out)
	}
	s.rolledOn(len(s.Nodes) - 1)
	s.Kubectl("taint", "node", node, "example.com/removed-")
	s.Kubectl("uncordon", node)
	s.rolled(s.replaced(before, node))
}
