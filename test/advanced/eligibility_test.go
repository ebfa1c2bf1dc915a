// SPDX-License-Identifier: Apache-2.0

package advanced

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/test/harness"
)

const (
	colour = harness.LabelPrefix + "colour"
	taint  = harness.LabelPrefix + "taint"
)

// eligibilityScenarios are about which nodes run a pod, and nodes that come, go, and are out of reach.
func eligibilityScenarios() []scenario {
	return []scenario{
		{"node-selector-follows-labels", 3, false, followLabels},
		{"affinity", 3, false, affinity},
		{"taints-and-tolerations", 3, false, taints},
		{"new-node", 1, false, newNode},
		{"removed-node", 2, false, removedNode},
		{"cut-node", 3, false, cutNode},
		{"tainted-nodes-use-no-budget", 4, false, taintedNodesUseNoBudget},
		{"cordoned-nodes-are-updated", 2, false, cordoned},
	}
}

func followLabels(s *stage) {
	s.LabelNode(s.Nodes[0], colour, "blue")
	s.apply(fmt.Sprintf("spec: {template: {spec: {nodeSelector: {%s: blue}}}}", colour))
	s.rolledOn(1, harness.RunsOn(s.name, s.Nodes[0]))
	s.LabelNode(s.Nodes[1], colour, "blue")
	s.rolledOn(2, harness.RunsOn(s.name, s.Nodes[:2]...))
	s.LabelNode(s.Nodes[0], colour, "")
	s.rolledOn(1, harness.RunsOn(s.name, s.Nodes[1]))
}

func affinity(s *stage) {
	s.LabelNode(s.Nodes[0], colour, "blue")
	s.apply(fmt.Sprintf("spec: {template: {spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "+
		"{nodeSelectorTerms: [{matchExpressions: [{key: %s, operator: NotIn, values: [blue]}]}]}}}}}}", colour))
	s.rolledOn(2, harness.RunsOn(s.name, s.Nodes[1:]...))
	// Another affinity is another template; pods come where it allows them now.
	s.apply("spec: {template: {spec: {affinity: null}}}")
	s.rolled()
}

func taints(s *stage) {
	s.Taint(s.Nodes[0], corev1.Taint{Key: taint, Effect: corev1.TaintEffectNoSchedule})
	s.apply()
	s.rolledOn(2, harness.RunsOn(s.name, s.Nodes[1:]...))
	s.apply(fmt.Sprintf("spec: {template: {spec: {tolerations: [{key: %s, operator: Exists, effect: NoSchedule}]}}}", taint))
	s.rolled()
	s.Taint(s.Nodes[1], corev1.Taint{Key: taint, Effect: corev1.TaintEffectNoExecute})
	s.rolledOn(2, harness.RunsOn(s.name, s.Nodes[0], s.Nodes[2]))
	s.Untaint(s.Nodes[1], taint)
	s.rolled()
	s.Untaint(s.Nodes[0], taint)
}

func newNode(s *stage) {
	s.run()
	s.AddFreshNode()
	s.rolled(harness.RunsOn(s.name, s.Nodes...))
}

func removedNode(s *stage) {
	s.run()
	s.RemoveNode(s.Nodes[0])
	s.rolled(harness.RunsOn(s.name, s.Nodes...))
}

// cutNode: a node that is out of reach neither stops an update nor uses its budget; it is updated when it comes back.
func cutNode(s *stage) {
	s.run()
	cut := s.Nodes[0]
	s.CutNode(cut)
	s.Wait("the node is out of reach", harness.StatusIs(s.name, "2 desired, 1 misscheduled", func(status status) bool {
		return status.DesiredNumberScheduled == 2 && status.NumberMisscheduled == 1
	}))
	s.apply(withImage(two))
	s.Wait("the others are updated", harness.Observed(s.name, s.generation()), harness.StatusIs(s.name, "2 updated and available", func(status status) bool {
		return status.UpdatedNumberScheduled == 2 && status.NumberAvailable == 2
	}))
	s.HealNode(cut)
	s.rolled(s.runs(two))
}

// taintedNodesUseNoBudget: pods that may stay where none may be placed any more stay, and do not stop the others.
func taintedNodesUseNoBudget(s *stage) {
	s.run()
	stay := s.Nodes[:2]
	for _, node := range stay {
		s.Taint(node, corev1.Taint{Key: taint, Effect: corev1.TaintEffectNoSchedule})
	}
	s.Wait("their pods are misscheduled", harness.StatusIs(s.name, "2 desired, 2 misscheduled", func(status status) bool {
		return status.DesiredNumberScheduled == 2 && status.NumberMisscheduled == 2
	}))
	s.apply(withImage(two))
	s.Wait("the others are updated", harness.Observed(s.name, s.generation()), harness.StatusIs(s.name, "2 updated and available", func(status status) bool {
		return status.UpdatedNumberScheduled == 2 && status.NumberAvailable == 2
	}))
	s.wantNodes(one, stay...)
	for _, node := range stay {
		s.Untaint(node, taint)
	}
	s.rolled(s.runs(two))
}

// cordoned: a node that is unschedulable keeps its daemon pod, which is updated like the others.
func cordoned(s *stage) {
	s.run()
	s.Cordon(s.Nodes[0], true)
	s.roll(two)
	s.Cordon(s.Nodes[0], false)
}
