// SPDX-License-Identifier: Apache-2.0

package advanced

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	kruisedialect "everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/test/harness"
)

// limitScenarios are about selector, partition and paused, and what changes in the middle of an update.
func limitScenarios() []scenario {
	return []scenario{
		{"selector-by-expression", 3, false, selectorByExpression},
		{"selector-changed-mid-roll", 6, false, selectorChanged},
		{"selector-and-partition", 4, false, selectorAndPartition},
		{"selector-of-no-node", 2, false, selectorOfNone},
		{"partition-number", 4, false, partitionNumber},
		{"partition-percent-rounded-down", 5, false, partitionPercent},
		{"partition-lowered-mid-roll", 4, false, partitionLowered},
		{"partition-raised-rolls-nothing-back", 4, false, partitionRaised},
		{"partition-of-all-nodes", 3, false, partitionOfAll},
		{"partition-and-a-new-node", 3, false, partitionNewNode},
		{"partition-with-surge", 3, false, partitionWithSurge},
		{"held-node-keeps-its-revision", 3, true, heldKeepsRevision},
		{"paused-new-node-gets-a-pod", 2, false, pausedNewNode},
		{"paused-mid-roll", 5, true, pausedMidRoll},
		{"paused-with-partition-and-selector", 4, false, pausedWithAll},
	}
}

// progressiveScenarios are about partitions that hold back the creation of pods too.
func progressiveScenarios() []scenario {
	return []scenario{
		{"progressive-by-annotation", 4, false, progressive(alpha, `metadata: {annotations: {daemonset.kruise.io/progressive-create-pod: "true"}}`)},
		{"progressive-by-field", 4, false, progressive("spec: {scaleStrategy: {partitionedScaling: true}}")},
		{"partition-alone-holds-back-no-creation", 3, false, func(s *stage) { s.run(rolling("partition: 2")) }},
	}
}

func selectorByExpression(s *stage) {
	s.LabelNode(s.Nodes[0], colour, "blue")
	s.LabelNode(s.Nodes[1], colour, "green")
	s.run(rolling(fmt.Sprintf("selector: {matchExpressions: [{key: %s, operator: In, values: [blue, green]}]}", colour)))
	s.apply(withImage(two))
	s.held(2)
	s.wantNodes(two, s.Nodes[:2]...)
	// A node that gets the label is updated too.
	s.LabelNode(s.Nodes[2], colour, "green")
	s.rolled(s.runs(two))
}

// choose is a fragment that restricts updates to nodes of a colour.
func choose(value string) string {
	return rolling(fmt.Sprintf("selector: {matchLabels: {%s: %s}}", colour, value))
}

// selectorChanged: what has begun is finished, and then the other nodes have their turn.
func selectorChanged(s *stage) {
	for i, value := range []string{"blue", "blue", "blue", "blue", "green", "green"} {
		s.LabelNode(s.Nodes[i], colour, value)
	}
	s.run(choose("blue"), "spec: {minReadySeconds: 5}") // slow enough for the change to come in the middle
	s.apply(withImage(two))
	s.Wait("the first blue node is updated", s.updatedSomewhere(two))
	s.apply(choose("green"))
	s.Wait("the green nodes are updated", s.onNodes(two, s.Nodes[4:]...))
	s.Wait("the other blue nodes are held back",
		harness.ConditionIs(s.name, kruisedialect.Progressing, corev1.ConditionFalse, kruisedialect.ReasonHeld))
	s.apply(rolling("selector: null"))
	s.rolled(s.runs(two))
}

// updatedSomewhere is met when a ready pod has the image.
func (s *stage) updatedSomewhere(image string) harness.Condition {
	return func(v harness.View) error {
		for _, pod := range v.Pods(s.name) {
			if imageOf(pod) == image && harness.Ready(pod) {
				return nil
			}
		}
		return fmt.Errorf("no ready pod has image %s", image)
	}
}

// onNodes is met when these nodes have a ready pod with the image.
func (s *stage) onNodes(image string, nodes ...string) harness.Condition {
	return func(v harness.View) error {
		for _, node := range nodes {
			if pod := v.PodOn(s.name, node); pod == nil || imageOf(pod) != image || !harness.Ready(pod) {
				return fmt.Errorf("node %s has no ready pod with image %s", node, image)
			}
		}
		return nil
	}
}

func selectorAndPartition(s *stage) {
	nodes := s.sorted()
	for _, node := range nodes[:3] {
		s.LabelNode(node, colour, "blue")
	}
	s.run(choose("blue"), rolling("partition: 2"))
	s.apply(withImage(two))
	s.held(2)
	s.wantNodes(two, nodes[1:3]...) // two of four may be updated: of the three chosen ones, those with the highest names
	s.apply(rolling("partition: 0"))
	s.held(3)
	s.wantNodes(two, nodes[:3]...)
}

func selectorOfNone(s *stage) {
	s.run(choose("none"))
	before := s.uids()
	s.apply(withImage(two))
	s.held(0)
	s.samePods(before)
}

func partitionNumber(s *stage) {
	s.run(rolling("partition: 3"))
	before := s.uids()
	s.apply(withImage(two))
	s.held(1)
	nodes := s.sorted()
	s.wantNodes(two, nodes[3])
	for _, node := range nodes[:3] {
		if s.pod(node).UID != before[node] {
			s.t.Errorf("the pod of node %s was replaced", node)
		}
	}
}

func partitionPercent(s *stage) {
	s.run(rolling("partition: 50%"))
	s.apply(withImage(two))
	s.held(3) // half of five, rounded down, keep their pods
	s.wantNodes(two, s.sorted()[2:]...)
}

func partitionLowered(s *stage) {
	s.run(rolling("partition: 3"))
	s.apply(withImage(two))
	s.held(1)
	s.apply(rolling("partition: 1"))
	s.held(3)
	s.wantNodes(two, s.sorted()[1:]...)
	s.apply(rolling("partition: 0"))
	s.rolled(s.runs(two))
}

func partitionRaised(s *stage) {
	s.run(rolling("partition: 2"))
	s.apply(withImage(two))
	s.held(2)
	before := s.uids()
	s.apply(rolling("partition: 4"))
	s.held(2)
	s.samePods(before)
	s.wantNodes(two, s.sorted()[2:]...)
}

func partitionOfAll(s *stage) {
	s.run(rolling("partition: 7"))
	before := s.uids()
	s.apply(withImage(two))
	s.held(0)
	s.apply(rolling("partition: 100%"))
	s.held(0)
	s.samePods(before)
}

// partitionNewNode: a new node gets the newest revision, whatever the partition says.
func partitionNewNode(s *stage) {
	s.run(rolling("partition: 3"))
	s.apply(withImage(two))
	s.held(0)
	s.AddFreshNode()
	s.held(1, s.onNodes(two, s.Nodes[3]))
	s.wantNodes(one, s.Nodes[:3]...)
}

func partitionWithSurge(s *stage) {
	s.run(rolling("maxSurge: 1, partition: 2"))
	s.apply(withImage(two))
	s.held(1)
	s.wantNodes(two, s.sorted()[2])
}

func heldKeepsRevision(s *stage) {
	s.run(rolling("partition: 2"))
	s.apply(withImage(two))
	s.held(1)
	nodes, before := s.sorted(), s.uids()
	s.delete(nodes[0])
	s.Wait("the deleted pod is replaced", s.replaced(before, nodes[0]))
	s.held(1, harness.StatusIs(s.name, "3 available", func(status status) bool { return status.NumberAvailable == 3 }))
	s.wantNodes(one, nodes[:2]...)
}

func pausedNewNode(s *stage) {
	s.run(rolling("paused: true"))
	s.apply(withImage(two))
	s.held(0, harness.ConditionIs(s.name, kruisedialect.Paused, corev1.ConditionTrue, kruisedialect.ReasonPaused))
	s.AddFreshNode()
	s.held(1, s.onNodes(two, s.Nodes[2]))
	s.wantNodes(one, s.Nodes[:2]...)
	s.apply(rolling("paused: false"))
	s.rolled(s.runs(two), harness.ConditionIs(s.name, kruisedialect.Paused, corev1.ConditionFalse, kruisedialect.ReasonNotPaused))
}

func pausedMidRoll(s *stage) {
	s.run("spec: {minReadySeconds: 5}") // slow enough for the pause to come in the middle
	s.apply(withImage(two))
	s.Wait("the update has begun", s.updatedSomewhere(two))
	s.apply(rolling("paused: true"))
	s.Wait("the update is paused", harness.ConditionIs(s.name, kruisedialect.Progressing, corev1.ConditionFalse, kruisedialect.ReasonHeld),
		harness.StatusIs(s.name, "all available", func(status appsv1.DaemonSetStatus) bool { return int(status.NumberAvailable) == len(s.Nodes) }))
	if updated := len(s.running(two)); updated == 0 || updated == len(s.Nodes) {
		s.t.Errorf("%d of %d nodes are updated while paused", updated, len(s.Nodes))
	}
	s.apply(rolling("paused: false"))
	s.rolled(s.runs(two))
}

func pausedWithAll(s *stage) {
	nodes := s.sorted()
	for _, node := range nodes[:2] {
		s.LabelNode(node, colour, "blue")
	}
	s.run(choose("blue"), rolling("partition: 1, paused: true"))
	s.apply(withImage(two))
	s.held(0)
	s.apply(rolling("paused: false"))
	s.held(2)
	s.wantNodes(two, nodes[:2]...)
	s.apply(rolling("selector: null"))
	s.held(3)
	s.wantNodes(two, nodes[0], nodes[1], nodes[3])
}

func progressive(fragments ...string) func(s *stage) {
	return func(s *stage) {
		s.unjudged = true
		nodes := s.sorted()
		s.apply(append(fragments, rolling("partition: 3"))...)
		s.held(1)
		s.wantNodes(one, nodes[0])
		s.apply(rolling("partition: 50%"))
		s.held(2)
		s.wantNodes(one, nodes[:2]...)
		// Those that are there count first: an update now holds back the rest.
		s.apply(rolling("partition: 0"))
		s.rolled()
	}
}
