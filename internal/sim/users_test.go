// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"path"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/openyurt"
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
	if s.cfg.with("deletions") {
		ops = s.deletionOps(ops)
	}
	if set := s.w.set(); set != nil {
		ops = s.editOps(ops, set)
	}
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

// editOps are what users change of the set.
func (s *sim) editOps(ops []op, set *unstructured.Unstructured) []op {
	edit := func(what string, change func(spec map[string]any)) {
		ops = append(ops, op{"a user " + what, 1, func() { s.w.editSet(change) }})
	}
	for _, image := range []string{"v1", "v2", "v3", "v4-bad"} {
		if image != path.Base(imageOfSet(set)) {
			edit("sets the image "+image, func(spec map[string]any) { setImage(spec, image) })
		}
	}
	if s.cfg.with("templates") {
		templateEdits(set, edit)
	}
	switch s.cfg.dialect {
	case edgeRun:
		ops = s.edgeOps(ops)
	case alongsideRun: // with another strategy than OnDelete the other controller would roll
	case kruiseRun:
		kruiseEdits(set, edit)
		if s.cfg.with("gates") {
			ops = append(ops, s.annotates("closes gates", everynode.InPlaceGate, "true"), s.annotates("leaves gates open", everynode.InPlaceGate, "false"))
		}
		fallthrough
	default:
		for _, n := range []string{"1", "2", "50%"} {
			edit("allows "+n+" unavailable", func(spec map[string]any) { rolling(spec, n, "0") })
			edit("allows "+n+" surging", func(spec map[string]any) { rolling(spec, "0", n) })
		}
		edit("chooses OnDelete", func(spec map[string]any) { spec["updateStrategy"] = map[string]any{"type": "OnDelete"} })
	}
	return ops
}

// setImage sets the image of a template, by its last word.
func setImage(spec map[string]any, image string) {
	template := spec["template"].(map[string]any)["spec"].(map[string]any)
	template["containers"].([]any)[0].(map[string]any)["image"] = whereOf(template) + image
	if readTier(spec["template"].(map[string]any)); !readsTier(template) {
		askForRestart(spec["template"].(map[string]any))
	}
}

// baseOf is the last word of the image of a template.
func baseOf(template map[string]any) string {
	return path.Base(template["containers"].([]any)[0].(map[string]any)["image"].(string))
}

// rolling sets the budgets of a rolling update, and leaves the rest of it as it is.
func rolling(spec map[string]any, unavailable, surge string) {
	strategy := spec["updateStrategy"].(map[string]any)
	all, _ := strategy["rollingUpdate"].(map[string]any)
	if all == nil {
		all = map[string]any{}
	}
	all["maxUnavailable"], all["maxSurge"] = amount(unavailable), amount(surge)
	if surge != "0" {
		delete(all, "rollingUpdateType") // the webhook allows no surge with changes in place
	}
	spec["updateStrategy"] = map[string]any{"type": "RollingUpdate", "rollingUpdate": all}
}

// kruiseEdits are what users change of an Advanced DaemonSet only.
func kruiseEdits(set *unstructured.Unstructured, edit func(what string, change func(spec map[string]any))) {
	current := rollingOf(set)
	update := func(what, field string, value any) {
		if current != nil {
			edit(what, func(spec map[string]any) {
				spec["updateStrategy"].(map[string]any)["rollingUpdate"].(map[string]any)[field] = value
			})
		}
	}
	update("pauses the update", "paused", true)
	update("lets the update go on", "paused", false)
	for _, n := range []string{"0", "1", "2", "50%"} {
		update("sets the partition "+n, "partition", amount(n))
	}
	update("selects zone x", "selector", map[string]any{"matchLabels": map[string]any{zoneLabel: "x"}})
	update("selects all zones", "selector", nil)
	if quantity(current["maxSurge"], 2) == 0 {
		update("wants changes in place", "rollingUpdateType", "InPlaceIfPossible")
	}
	update("wants no changes in place", "rollingUpdateType", "Standard")
	for _, silent := range []bool{false, true} {
		edit(words("adds a hook, markPodNotReady %t", silent), func(spec map[string]any) {
			spec["lifecycle"] = preDelete(silent)
		})
	}
	edit("takes the hook away", func(spec map[string]any) { delete(spec, "lifecycle") })
}

// edgeOps are what users change of annotations.
func (s *sim) edgeOps(ops []op) []op {
	for _, n := range []string{"1", "2", "50%"} {
		ops = append(ops, s.annotates("allows "+n+" unavailable", openyurt.MaxUnavailable, n))
	}
	return append(ops,
		s.annotates("chooses OTA", openyurt.UpdateStrategy, string(openyurt.OTA)),
		s.annotates("chooses AdvancedRollingUpdate", openyurt.UpdateStrategy, string(openyurt.AdvancedRollingUpdate)))
}

// annotates is a user who sets an annotation of the set.
func (s *sim) annotates(what, key, value string) op {
	return op{"a user " + what, 1, func() {
		set := s.w.set().DeepCopy()
		annotations := set.GetAnnotations()
		if annotations[key] != value {
			annotations[key] = value
			set.SetAnnotations(annotations)
			s.w.put(ofSets, set)
		}
	}}
}
