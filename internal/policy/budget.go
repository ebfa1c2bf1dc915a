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
		if members++; r.idle(nowhere, i) {
			down++
		}
	}
	if down == 0 {
		return limit
	}
	return &rollout.Quantity{Value: max(limit.Of(members), 1) + down}
}

// idle reports whether a node uses up the budget of the set although nothing that the policy allows makes its pod available soon. In a rollout, these are nodes that wait for their
// update because of a later wave, step or group than that of the active wave, nodes with the revision for which the active wave does not wait, and nodes without which the waves go on; in an undo, those that
// are not ready, or on which the committed revision has had its time; while the template describes the committed revision, those that have it and are stuck.
func (r *run) idle(active place, i int) bool {
	n := &r.s.Nodes[i]
	switch {
	case !r.charged(i) || r.leaves(i):
		return false
	case r.atRest() && !r.undoing:
		return (!r.standing[i].AwaitsUpdate || len(r.s.Nodes[i].Pods) == 0) && r.isStuck(i)
	case !r.undoing:
		waits := r.standing[i].AwaitsUpdate
		return r.hasFailedOn(i) || r.isLeftOut(i) || waits && r.holds[i] != rollout.NotEvaluated && r.places[i] >= active || !waits && !r.ofWave(int(active), i)
	case !n.Ready || r.hasFailedOn(i):
		return true
	case r.failed == nil:
		return false
	}
	w := r.out.Watch.nodes[n.Name]
	return (w.before || w.joined) && w.uid != "" && r.hadItsTime(i)
}

// isStuck reports whether the pod of a node does not become available by itself, as far as is known without spec.failure: a pod on a ready node has some time to start, and to terminate.
func (r *run) isStuck(i int) bool {
	n := &r.s.Nodes[i]
	if !n.Ready || n.Obstacle() != "" {
		return true
	}
	made := rollout.Time(0)
	for k := range n.Pods {
		if n.Pods[k].InPlace != rollout.InPlaceNone {
			return false
		}
		made = max(made, n.Pods[k].Created, n.Pods[k].DeletedAt)
	}
	return len(n.Pods) > 0 && !r.remains(youngPod-r.s.Now.Sub(made))
}

// usedUp returns how many idle nodes use up the budget of the set, and how many nodes it allows.
func (r *run) usedUp(active place) (idle, most int) {
	return r.budget(func(i int) bool { return r.idle(active, i) })
}

// budget returns how many of some nodes the set has, and how many may use up its budget.
func (r *run) budget(some func(i int) bool) (nodes, most int) {
	set, members := r.s.Set, 0
	for i := range r.s.Nodes {
		if desired(&r.s.Nodes[i]) {
			members++
		}
		if some(i) { // also one that only keeps its pod
			nodes++
		}
	}
	if r.surges() {
		return nodes, set.MaxSurge.Of(members)
	}
	tightenSet(&set, r.p.MaxUnavailable, members)
	return nodes, max(set.MaxUnavailable.Of(members), 1)
}

// surges reports whether the budget of the set is the number of nodes that may have two pods.
func (r *run) surges() bool { return r.s.Set.MaxSurge.Value > 0 && !r.s.Set.ExternalController }

// full reports whether nodes use up the budget of the set.
func (r *run) full() bool {
	used, most := r.budget(r.charged)
	return used >= most
}

// charged reports whether a node uses up the budget of the set: one without an available pod, or with two if the set surges. By the rule of the set, a node that is not ready may use up none.
func (r *run) charged(i int) bool {
	if r.charging == nil {
		r.charging = r.s.Charged()
	}
	return r.charging(i) && !r.keptOut(i) && (r.isReleased(i) || !r.onlyKept(i))
}

// blockedByBudget reports when idle nodes use up the budget, so that nothing goes on: no update may replace their pods. A node with a pod that is not available needs no
// budget for its own update.
func (r *run) blockedByBudget(active place) {
	waits := false
	for i := 0; i < len(r.s.Nodes) && !waits; i++ {
		turn := r.holds[i] == rollout.NotEvaluated && r.standing[i].AwaitsUpdate
		waits = turn && r.serves(i) && (r.returning || r.ofWave(int(active), i))
	}
	if !waits {
		return
	}
	idle, most := r.usedUp(active)
	if idle < most {
		return
	}
	what := "No other update starts"
	if r.returning {
		what = "No other node returns"
	}
	limit, lack := "maxUnavailable", "no available pod"
	if r.surges() {
		limit, lack = "maxSurge", "two pods, or none that is available"
	}
	nodes := fmt.Sprintf("1 node has %s, gets no other one now, and uses", lack)
	if idle > 1 {
		nodes = fmt.Sprintf("%d nodes have %s, get no other one now, and use", idle, lack)
	}
	r.block("Budget", fmt.Sprintf("%s: %s up the budget, for %s is %d. Make their pods available or delete them, or raise %[3]s.", what, nodes, limit, most))
}
