// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"fmt"
	"strings"
	"testing"

	"everynode.dev/everynode/test/harness"
)

const alongside = `
apiVersion: everynode.dev/v1alpha1
kind: RolloutPolicy
metadata: {name: agents}
spec:
  targets: [{apiVersion: apps/v1, kind: DaemonSet, name: ds}]
  pace: {maxUnavailable: 2}
  waves:
  - {name: canary, nodes: {count: 1}, soak: 3s, after: [{type: Approval}]}
`

// TestSmokePolicy rolls a DaemonSet with OnDelete in waves, next to the controller of Kubernetes, which keeps its pods.
func TestSmokePolicy(t *testing.T) {
	c := harness.Own(t, harness.Options{Nodes: smokeNodes, Controller: harness.Native, Alongside: true, Sim: quick()})
	s := c.Space(t, smokeNodes)
	s.Run(set, harness.WithOnDelete)
	if out, err := s.KubectlWith(alongside, "apply", "-f", "-"); err != nil {
		t.Fatal(out)
	}
	s.Kubectl("wait", "--for=condition=Ready", "rolloutpolicy/agents", "--timeout=30s")
	s.Update(set, harness.WithImage(harness.Image2))
	ask := func(path string) string {
		out, _ := s.KubectlWith("", "get", "rolloutpolicy/agents", "-o", "jsonpath="+path)
		return strings.TrimSpace(out)
	}
	s.Poll("the canary waits for an approval", func() error {
		if phase := ask("{.status.sets[0].phase}"); phase != "WaitingForApproval" {
			return fmt.Errorf("the phase is %q", phase)
		}
		return nil
	})
	if got := updatedPods(s.View()); got != 1 {
		t.Errorf("%d nodes are updated", got)
	}
	if got := ask("{.status.sets[0].enforcement}") + ask(`{.status.conditions[?(@.type=="Enforced")].status}`); got != "OnDeleteFalse" {
		t.Errorf("the enforcement is %s", got)
	}
	manifest := "apiVersion: everynode.dev/v1alpha1\nkind: RolloutApproval\nmetadata: {name: go}\nspec: {policy: agents, set: ds, wave: canary, decision: Approve, revision: " +
		ask("{.status.sets[0].targetRevision}") + "}"
	if out, err := s.KubectlWith(manifest, "apply", "-f", "-"); err != nil {
		t.Fatal(out)
	}
	s.Wait("the roll ends", runs(harness.Image2, s.Nodes), ready(smokeNodes))
	s.Kubectl("wait", "--for=condition=Ready", "rolloutpolicy/agents", "--timeout=30s")
}

func updatedPods(v harness.View) (n int) {
	for _, p := range v.Pods(set) {
		if p.Spec.Containers[0].Image == harness.Image2 {
			n++
		}
	}
	return n
}
