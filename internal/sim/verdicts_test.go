// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/internal/rollout"
)

// judgeVerdicts: a verdict says what was so at one moment of the pass, as far as its manager knew. What is being done on a node has not been refused, and
// where a node is blocked there are words why. Until a manager notices that the store was restored, it knows what the watch has shown, although reads do not find it.
func (s *sim) judgeVerdicts(m *manager, was *rollout.Snapshot, plan *rollout.Plan) {
	for i, v := range plan.Verdicts {
		n := &was.Nodes[i]
		var why string
		for _, k := range m.known.moments {
			if m.cut {
				break
			}
			if why = s.denied(k, n.Name, v.Kind); why == "" {
				break
			}
		}
		switch {
		case v.Kind == rollout.Blocked && plan.Obstacle(was, i) == "":
			why = "nothing says what stands in the way"
		case v.Kind.Group() == rollout.GroupActing && m.turns.refused[n.Name]:
			why = "the API server has refused it"
		}
		if why != "" {
			s.blame("verdicts", "%s says %v of %s: %s", m.name, v.Kind, n.Name, why)
		}
	}
	m.verdicts = map[string]rollout.VerdictKind{}
	for i, v := range plan.Verdicts {
		m.verdicts[was.Nodes[i].Name] = v.Kind
	}
}

// denied is what a verdict on a node says that is not so; empty if it is so, or says nothing that can be known from outside.
func (s *sim) denied(k known, node string, v rollout.VerdictKind) string {
	if k.set == nil {
		return "" // the set is gone, or not known yet
	}
	if now := s.w.set(); isAlongside(k.set) && (now == nil || now.GetUID() != k.set.GetUID()) {
		return "" // its revisions may have another owner by now, or none, and then no manager can know which was the newest
	}
	there := slices.DeleteFunc(k.on(node), func(p *corev1.Pod) bool { return !k.alive(p) })
	some := func(test func(*corev1.Pod) bool) bool { return slices.ContainsFunc(there, test) }
	newest := func(p *corev1.Pod) bool { return k.newest(p) || !k.recorded(k.set) }
	old := func(p *corev1.Pod) bool { return !k.newest(p) || !k.recorded(k.set) }
	must := func(is bool, why string) string {
		if is {
			return ""
		}
		return why
	}
	l := limitsOf(k.set)
	switch v {
	case rollout.UpToDate:
		return must(some(func(p *corev1.Pod) bool { return newest(p) && available(p, 0, s.w.now) }), "no pod of the newest revision is ready")
	case rollout.NotWanted:
		return must(len(there) == 0 && k.fit(node) != mustRun, "the node has or needs a pod")
	case rollout.Stays:
		return must(len(there) > 0 && k.fit(node) == mayStay, "no pod is there that may stay")
	case rollout.WaitAvailable:
		return must(some(newest), "no pod of the newest revision is there")
	case rollout.WaitTerminating:
		return must(s.terminates(k, node), "no pod is terminating")
	case rollout.WaitOnDelete:
		return must((byHand(k.set) || s.cfg.with("yurt")) && some(old), "users need not delete a pod")
	case rollout.WaitPaused:
		return must(l.paused, "the set is not paused")
	case rollout.WaitSelector:
		return must(l.leaves(k.nodes[node]), "the node is selected")
	case rollout.WaitPartition:
		return must(l.partition(k.desired()) > 0, "there is no partition")
	case rollout.WaitBudget, rollout.WaitReplacing, rollout.WaitSurgeRemove:
		return must(some(old), "no old pod is there")
	case rollout.WaitHook:
		return must(s.anyPod(k, node, preparing), "no pod waits for its hook")
	case rollout.WaitCollection:
		return must(k.nodes[node] == nil, "the node is there")
	case rollout.WaitUnreachable:
		return must(k.nodes[node] != nil && !nodeReady(k.nodes[node]), "the node is ready")
	default:
		return ""
	}
}

// terminates is whether a pod of the set is being deleted on a node, or one is about to be.
func (s *sim) terminates(k known, node string) bool {
	// A delete may have its place in the slow lane.
	return s.cfg.with("slowness") || s.anyPod(k, node, func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil || k.doomed[p.UID] })
}

// anyPod is whether a pod of the set on a node, be it one that has ended, passes a test.
func (s *sim) anyPod(k known, node string, test func(*corev1.Pod) bool) bool {
	for _, p := range k.pods {
		if nodeOf(p) == node && ownedBy(p, k.set) && test(p) {
			return true
		}
	}
	return false
}

// checkVerdicts: in the end the last verdicts say what is so in the world, and nothing is blocked any more.
func (s *sim) checkVerdicts() {
	all := s.everything()
	for _, n := range s.w.nodes() {
		v, said := s.lead.verdicts[n.Name]
		why := s.denied(all, n.Name, v)
		switch {
		case !said:
			why = "nothing is said of it"
		case v == rollout.Blocked:
			why = "nothing is refused any more"
		case v.Group() == rollout.GroupActing:
			why = "nothing is done any more"
		}
		if why != "" {
			s.blame("verdicts", "in the end %s says %v of %s: %s", s.lead.name, v, n.Name, why)
		}
	}
}
