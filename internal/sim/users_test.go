// SPDX-License-Identifier: Apache-2.0

package sim

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nodeOps are what happens to nodes.
func (s *sim) nodeOps(ops []op) []op {
	for i := range s.cfg.nodes + 1 {
		name := words("n%d", i+1)
		add := func(what string, do func(n *corev1.Node)) {
			ops = append(ops, op{name + " " + what, 1, func() { s.w.changeNode(s.w.node(name), do) }})
		}
		n := s.w.node(name)
		if n == nil {
			ops = append(ops, op{name + " joins", 2, func() { s.w.put(ofNodes, newNode(name, s.w.now)) }})
			continue
		}
		ops = append(ops, op{name + " vanishes", 1, func() { s.w.remove(ofNodes, name) }})
		if nodeReady(n) {
			ops = append(ops, op{name + " goes down", 1, func() { s.goesDown(n) }})
		} else {
			add("comes up", func(n *corev1.Node) { s.setNode(n, corev1.ConditionTrue) })
		}
		switch {
		case len(n.Spec.Taints) > 0:
			add("is not tainted any more", func(n *corev1.Node) { n.Spec.Taints = nil })
		default:
			for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute} {
				add("is tainted "+string(effect), func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: taintKey, Effect: effect}} })
			}
		}
		other := map[string]string{"a": "b", "b": "a"}[n.Labels[poolLabel]]
		add("moves to pool "+other, func(n *corev1.Node) { n.Labels[poolLabel] = other })
	}
	return ops
}

func (s *sim) setNode(n *corev1.Node, status corev1.ConditionStatus) {
	n.Status.Conditions[0].Status, n.Status.Conditions[0].LastTransitionTime = status, metav1.NewTime(s.w.now)
}

// goesDown: Kubernetes says of the pods of a node that has fallen silent that they are not ready.
func (s *sim) goesDown(n *corev1.Node) {
	s.w.changeNode(n, func(n *corev1.Node) { s.setNode(n, corev1.ConditionUnknown) })
	for _, p := range s.w.pods() {
		if ready, _ := readyOf(p); ready && p.Spec.NodeName == n.Name {
			s.w.changePod(p, func(p *corev1.Pod) { s.setReady(p, false) })
		}
	}
}

// userOps are what users do.
func (s *sim) userOps(ops []op) []op {
	set := s.w.set()
	edit := func(what string, change func(spec map[string]any)) {
		ops = append(ops, op{"a user " + what, 1, func() { s.w.editSet(change) }})
	}
	for _, image := range []string{"v1", "v2", "v3", "v4-bad"} {
		if image != imageOfSet(set) {
			edit("sets the image "+image, func(spec map[string]any) { setImage(spec, image) })
		}
	}
	for _, n := range []string{"1", "2", "50%"} {
		edit("allows "+n+" unavailable", func(spec map[string]any) { rolling(spec, n, "0") })
		edit("allows "+n+" surging", func(spec map[string]any) { rolling(spec, "0", n) })
	}
	edit("chooses OnDelete", func(spec map[string]any) { spec["updateStrategy"] = map[string]any{"type": "OnDelete"} })
	for _, p := range s.w.pods() {
		if p.DeletionTimestamp == nil {
			ops = append(ops, op{"a user deletes " + string(p.UID), 1, func() { s.w.endPod(p, grace) }})
		}
	}
	if s.cfg.with("refusals") {
		if s.w.closed == nil {
			ops = append(ops, op{"the quota is used up", 1, func() { s.w.closed = errQuota("") }})
		} else {
			ops = append(ops, op{"the quota is raised", 2, func() { s.w.closed = nil }})
		}
	}
	return ops
}

func setImage(spec map[string]any, image string) {
	template := spec["template"].(map[string]any)["spec"].(map[string]any)
	template["containers"].([]any)[0].(map[string]any)["image"] = image
}

func rolling(spec map[string]any, unavailable, surge string) {
	spec["updateStrategy"] = map[string]any{
		"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxUnavailable": amount(unavailable), "maxSurge": amount(surge)},
	}
}
