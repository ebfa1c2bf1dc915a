// SPDX-License-Identifier: Apache-2.0

package advanced

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/test/harness"
)

// hookScenarios are about pods that wait before they are deleted.
func hookScenarios() []scenario {
	return []scenario{
		{"hook-on-recreation", 2, true, hookOnRecreation},
		{"hook-when-the-node-selector-moves-away", 2, false, hookOnScaleDown},
		{"hook-when-the-affinity-moves-away", 2, false, hookOnAffinity},
		{"hook-by-finalizer", 2, false, hookByFinalizer},
		{"hook-marks-the-pod-not-ready", 2, false, hookNotReady},
		{"hook-and-another-template", 2, false, hookAndTemplate},
		{"hook-and-the-template-of-before", 2, false, hookAndTemplateOfBefore},
		{"hook-and-the-node-back-again", 2, false, hookAndNodeBack},
		{"hook-and-all-nodes-back-while-paused", 3, false, hookAndNodesBackPaused},
		{"hook-of-a-deleted-node", 2, false, hookOfDeletedNode},
		{"hook-and-a-manual-delete", 1, false, hookAndManualDelete},
		{"hook-keeps-to-the-budget", 4, false, hookBudget},
		{"hook-with-surge", 2, false, hookWithSurge},
	}
}

const (
	hooked = `spec: {lifecycle: {preDelete: {labelsHandler: {example.io/block-deleting: "true"}}},
  template: {metadata: {labels: {example.io/block-deleting: "true"}}}}`
	finalized = `spec: {lifecycle: {preDelete: {finalizersHandler: [example.io/unready-blocker]}},
  template: {metadata: {finalizers: [example.io/unready-blocker]}}}`
)

func hookOnRecreation(s *stage) {
	s.run(hooked)
	before := s.uids()
	s.apply(withImage(two))
	for i := len(s.Nodes) - 1; i >= 0; i-- { // the highest name first
		node := s.sorted()[i]
		old := s.pod(node)
		s.waitPrepared(old)
		if !harness.Ready(old) {
			s.t.Errorf("pod %s is not ready while it waits", old.Name)
		}
		s.release(old)
		s.Wait("it goes at once when it is released", s.replaced(before, node))
	}
	s.rolled(s.runs(two))
}

func hookOnScaleDown(s *stage) {
	for _, node := range s.Nodes {
		s.LabelNode(node, colour, "blue")
	}
	s.run(hooked, fmt.Sprintf("spec: {template: {spec: {nodeSelector: {%s: blue}}}}", colour))
	leaving := s.pod(s.Nodes[0])
	s.LabelNode(s.Nodes[0], colour, "")
	s.waitPrepared(leaving)
	s.release(leaving)
	s.rolledOn(1, harness.RunsOn(s.name, s.Nodes[1]))
}

func hookOnAffinity(s *stage) {
	s.LabelNode(s.Nodes[0], colour, "blue")
	s.run(hooked)
	leaving, staying := s.pod(s.Nodes[0]), s.pod(s.Nodes[1])
	s.apply(fmt.Sprintf("spec: {template: {spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "+
		"{nodeSelectorTerms: [{matchExpressions: [{key: %s, operator: NotIn, values: [blue]}]}]}}}}}}", colour))
	s.waitPrepared(leaving)
	s.waitPrepared(staying) // another template, so this one is recreated
	s.release(leaving)
	s.release(staying)
	s.rolledOn(1, harness.RunsOn(s.name, s.Nodes[1]))
}

func hookByFinalizer(s *stage) {
	defer s.removeFinalizers()
	s.run(finalized)
	before := s.uids()
	s.apply(withImage(two))
	for i := len(s.Nodes) - 1; i >= 0; i-- {
		node := s.sorted()[i]
		old := s.pod(node)
		s.waitPrepared(old)
		s.release(old)
		s.Wait("it goes when it is released", s.replaced(before, node))
	}
	s.rolled(s.runs(two))
}

func hookNotReady(s *stage) {
	s.run(hooked, "spec: {lifecycle: {preDelete: {markPodNotReady: true}}}")
	for _, node := range s.Nodes {
		if pod := s.pod(node); gateOf(pod, kruise.KruisePodReady) != 1 {
			s.t.Errorf("pod %s has gates %v", pod.Name, pod.Spec.ReadinessGates)
		}
	}
	old := s.pod(s.sorted()[1])
	s.apply(withImage(two))
	s.waitPrepared(old, notReadyForHook(old))
	s.release(old)
	second := s.pod(s.sorted()[0])
	s.waitPrepared(second, notReadyForHook(second))
	s.release(second)
	s.rolled(s.runs(two))
}

// gateOf is how often the pod has the gate.
func gateOf(pod *corev1.Pod, gate corev1.PodConditionType) int {
	count := 0
	for _, g := range pod.Spec.ReadinessGates {
		if g.ConditionType == gate {
			count++
		}
	}
	return count
}

// hookAndTemplate: a pod that waits goes to the newest template when it is released, whatever that is by then.
func hookAndTemplate(s *stage) {
	s.run(hooked)
	before, node := s.uids(), s.sorted()[1]
	old := s.pod(node)
	s.apply(withImage(two))
	s.waitPrepared(old)
	s.apply(withImage(three))
	s.Wait("the third template is known", harness.Observed(s.name, s.generation()))
	s.waitPrepared(old)
	s.release(old)
	s.Wait("the third template is there", s.replaced(before, node), s.onNodes(three, node))
	other := s.pod(s.sorted()[0])
	s.waitPrepared(other)
	s.release(other)
	s.rolled(s.runs(three))
}

// hookAndTemplateOfBefore: a pod that waits and is wanted again is let be.
func hookAndTemplateOfBefore(s *stage) {
	s.run(hooked, "spec: {lifecycle: {preDelete: {markPodNotReady: true}}}")
	before := s.uids()
	old := s.pod(s.sorted()[1])
	s.apply(withImage(two))
	s.waitPrepared(old, notReadyForHook(old))
	s.apply(withImage(one))
	s.rolled(s.lives(old))
	s.samePods(before)
}

// lives is met when the pod is ready and not about to be deleted.
func (s *stage) lives(pod *corev1.Pod) harness.Condition {
	return func(v harness.View) error {
		now := podNamed(v, pod)
		if now == nil || now.DeletionTimestamp != nil || !harness.Ready(now) {
			return fmt.Errorf("pod %s is gone, going or not ready", pod.Name)
		}
		if state := now.Labels[kruise.LifecycleState]; state == kruise.LifecyclePreparingDelete {
			return fmt.Errorf("the state of pod %s is %s", pod.Name, state)
		}
		return nil
	}
}

func hookAndNodeBack(s *stage) {
	for _, node := range s.Nodes {
		s.LabelNode(node, colour, "blue")
	}
	s.run(hooked, fmt.Sprintf("spec: {template: {spec: {nodeSelector: {%s: blue}}}}", colour))
	before := s.uids()
	leaving := s.pod(s.Nodes[0])
	s.LabelNode(s.Nodes[0], colour, "")
	s.waitPrepared(leaving)
	s.LabelNode(s.Nodes[0], colour, "blue")
	s.rolled(s.lives(leaving))
	s.samePods(before)
}

// hookAndNodesBackPaused: that the pods had to leave for a while does not begin an update of their nodes.
func hookAndNodesBackPaused(s *stage) {
	for _, node := range s.Nodes {
		s.LabelNode(node, colour, "blue")
	}
	s.run(hooked, fmt.Sprintf("spec: {template: {spec: {nodeSelector: {%s: blue}}}}", colour))
	before := s.uids()
	for _, node := range s.Nodes {
		s.LabelNode(node, colour, "")
	}
	for _, node := range s.Nodes {
		s.waitPrepared(s.pod(node))
	}
	s.apply(rolling("paused: true"), withImage(two))
	for _, node := range s.Nodes {
		s.LabelNode(node, colour, "blue")
	}
	s.held(0, s.lives(s.pod(s.Nodes[0])), s.lives(s.pod(s.Nodes[1])), s.lives(s.pod(s.Nodes[2])))
	s.samePods(before)
}

// hookOfDeletedNode: the pod garbage collector does not ask, so only a finalizer can hold the pod of a node that is gone.
func hookOfDeletedNode(s *stage) {
	defer s.removeFinalizers()
	s.run(finalized)
	orphan := s.pod(s.Nodes[0])
	s.RemoveNode(s.Nodes[0])
	s.Wait("the pod is deleted and held by its finalizer", func(v harness.View) error {
		if now := podNamed(v, orphan); now == nil || now.DeletionTimestamp == nil {
			return fmt.Errorf("pod %s is gone, or not deleted yet", orphan.Name)
		}
		return nil
	}, harness.StatusIs(s.name, "1 desired", func(status status) bool { return status.DesiredNumberScheduled == 1 && status.NumberAvailable == 1 }))
	s.release(orphan)
	s.rolledOn(1, harness.RunsOn(s.name, s.Nodes[0]))
}

// hookAndManualDelete: what a person deletes is not held by a label.
func hookAndManualDelete(s *stage) {
	s.run(hooked)
	before := s.uids()
	s.delete(s.Nodes[0])
	s.rolled(s.replaced(before, s.Nodes[0]))
}

// hookBudget: pods that wait use up the budget, each of them once.
func hookBudget(s *stage) {
	s.run(hooked, rolling("maxUnavailable: 2"))
	s.apply(withImage(two))
	nodes := s.sorted()
	first, second := s.pod(nodes[3]), s.pod(nodes[2])
	s.waitPrepared(first)
	s.waitPrepared(second)
	s.Wait("the newest generation is observed", harness.Observed(s.name, s.generation()))
	if waiting := s.preparing(); len(waiting) != 2 {
		s.t.Errorf("pods %v wait, want 2", waiting)
	}
	for _, node := range []string{nodes[3], nodes[2], nodes[1], nodes[0]} {
		old := s.pod(node)
		s.waitPrepared(old)
		if waiting := s.preparing(); len(waiting) > 2 {
			s.t.Errorf("pods %v wait at once, want at most 2", waiting)
		}
		s.release(old)
	}
	s.rolled(s.runs(two))
}

// preparing are the pods that wait for the label, by name.
func (s *stage) preparing() []string {
	var waiting []string
	for _, pod := range s.View().Pods(s.name) {
		_, blocked := pod.Labels["example.io/block-deleting"]
		if pod.DeletionTimestamp == nil && blocked && pod.Labels[kruise.LifecycleState] == kruise.LifecyclePreparingDelete {
			waiting = append(waiting, pod.Name)
		}
	}
	return waiting
}

// hookWithSurge: the old pod waits only when the new one has taken over.
func hookWithSurge(s *stage) {
	s.run(hooked, rolling("maxSurge: 1"))
	s.apply(withImage(two))
	for i := len(s.Nodes) - 1; i >= 0; i-- {
		node := s.sorted()[i]
		var old *corev1.Pod
		s.Wait("the old pod waits beside the new one", func(v harness.View) error {
			for _, pod := range v.Pods(s.name) {
				if pod.Spec.NodeName == node && imageOf(pod) == one && pod.Labels[kruise.LifecycleState] == kruise.LifecyclePreparingDelete {
					old = pod
					return nil
				}
			}
			return fmt.Errorf("the old pod of node %s does not wait", node)
		})
		s.release(old)
	}
	s.rolled(s.runs(two))
}
