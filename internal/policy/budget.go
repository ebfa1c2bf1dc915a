// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"

	"everynode.dev/everynode/internal/rollout"
)

// Tighten reduces the budget of the set to that of the policy. A set that surges keeps its pods, so it has no such budget.
func (p *Policy) Tighten(s *rollout.Snapshot) { tighten(s, p.MaxUnavailable) }

func tighten(s *rollout.Snapshot, limit *rollout.Quantity) {
	members := 0
	for i := range s.Nodes {
		if desired(&s.Nodes[i]) {
			members++
		}
	}
	tightenSet(&s.Set, limit, members)
}

func tightenSet(set *rollout.Set, limit *rollout.Quantity, members int) {
	if limit == nil || set.MaxSurge.Value > 0 {
		return
	}
	if most := max(limit.Of(members), 1); most < set.MaxUnavailable.Of(members) {
		set.MaxUnavailable = rollout.Quantity{Value: most}
	}
}

// blockedByBudget reports when nodes of later waves, and of later steps and groups of the active one, use up the budget, so that nothing goes on: their pods are not
// available, and no update may replace them. A node of the active wave with a pod that is not available needs no budget.
func (r *run) blockedByBudget(active int) {
	if r.s.Set.MaxSurge.Value > 0 {
		return
	}
	waits := false
	for i := range r.s.Nodes {
		if waits = r.holds[i] == rollout.NotEvaluated && r.standing[i].AwaitsUpdate && r.ofWave(active, i) && r.serves(i); waits {
			break
		}
	}
	if !waits {
		return
	}
	if down, failed, most := r.usedUp(active); down+failed >= most {
		what := "of later waves, steps or groups"
		if failed > 0 {
			what += ", or without which a wave goes on,"
		}
		nodes := fmt.Sprintf("1 node %s is", what)
		if down+failed > 1 {
			nodes = fmt.Sprintf("%d nodes %s are", down+failed, what)
		}
		r.block("Budget", fmt.Sprintf("%s not available, and maxUnavailable is %d: make their pods available or delete them, or raise maxUnavailable.", nodes, most))
	}
}

// usedUp is how many nodes use up the budget although no update of the active wave is under way there: down are those of later waves, and of later steps and groups of
// the active one, and failed those without which a wave goes on, because they have failed and may, or are left out. most is how many may be unavailable.
func (r *run) usedUp(active int) (down, failed, most int) {
	set, members := r.s.Set, 0
	for i := range r.s.Nodes {
		n := &r.s.Nodes[i]
		if !desired(n) {
			continue
		}
		members++
		fails, held := r.hasFailedOn(i) || r.isLeftOut(i), r.holds[i] != rollout.NotEvaluated && r.standing[i].AwaitsUpdate && r.places[i] >= place(active)
		switch {
		case !fails && !held || !n.Ready && set.Unreachable.Skip || r.serves(i):
		case fails:
			failed++
		default:
			down++
		}
	}
	tightenSet(&set, r.p.MaxUnavailable, members)
	return down, failed, max(set.MaxUnavailable.Of(members), 1)
}

// undoLimit is how many nodes may be unavailable during an undo; nil for no limit. Nodes for which the undo does not wait do not use it up: a node that dies, or on which
// the committed revision does not work either, must not keep all others on the failed revision.
func (r *run) undoLimit() *rollout.Quantity {
	limit := r.p.Undo.MaxUnavailable
	if limit == nil {
		return nil
	}
	members, down := 0, 0
	for i := range r.s.Nodes {
		if !member(r.s, &r.s.Nodes[i]) {
			continue
		}
		if members++; r.staysDown(i) {
			down++
		}
	}
	if down == 0 {
		return limit
	}
	return &rollout.Quantity{Value: max(limit.Of(members), 1) + down}
}

// staysDown reports whether an undo does not wait for a node without an available pod: it is not ready, or the committed revision has had time to become available there.
// By the rule of the set, nodes that are not ready may need none of its budget anyway.
func (r *run) staysDown(i int) bool {
	n := &r.s.Nodes[i]
	switch {
	case r.serves(i):
		return false
	case !n.Ready:
		return !r.s.Set.Unreachable.Skip
	case r.hasFailedOn(i):
		return true
	case r.failed == nil:
		return false
	}
	w := r.out.Watch.nodes[n.Name]
	if !w.before || w.uid == "" {
		return false
	}
	rest := r.p.Failure.NodeDeadline - w.age
	if rest > 0 {
		r.wakeAt(r.s.Now.Add(rest))
	}
	return rest <= 0
}

// blockedUndo reports when nodes for which an undo does not wait use up the budget of the set, so that no other node returns.
func (r *run) blockedUndo() {
	if r.s.Set.MaxSurge.Value > 0 {
		return
	}
	set, members, down, waits := r.s.Set, 0, 0, false
	for i := range r.s.Nodes {
		if !desired(&r.s.Nodes[i]) {
			continue
		}
		if members++; r.staysDown(i) {
			down++
		} else if r.holds[i] == rollout.NotEvaluated && r.standing[i].AwaitsUpdate && r.serves(i) {
			waits = true
		}
	}
	tightenSet(&set, r.p.MaxUnavailable, members)
	most := max(set.MaxUnavailable.Of(members), 1)
	if !waits || down < most {
		return
	}
	nodes := "1 node has no available pod and uses"
	if down > 1 {
		nodes = fmt.Sprintf("%d nodes have no available pod and use", down)
	}
	r.block("Budget", fmt.Sprintf("No other node returns: %s up the budget, for maxUnavailable is %d. Make their pods available, or raise maxUnavailable.", nodes, most))
}
