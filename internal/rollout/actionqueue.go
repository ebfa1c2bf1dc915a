// SPDX-License-Identifier: Apache-2.0

package rollout

import "slices"

// actionQueue collects the actions of a plan in groups. If there is no room for all of them, actions of later
// groups are left out. This violates no budget: the nodes of all groups except update are charged for their
// state, not for the action, and the update starts only as many actions as have room.
type actionQueue struct {
	burst int
	// finish contains writes that put an existing pod into use; they cost only the write, so they come first.
	// missing contains creates on nodes without a running pod, which restore service. broken contains actions
	// that do not depend on the update: deletes of pods that cannot stay, and the continuation of earlier
	// actions. update contains what the update starts. again contains actions on nodes where the last write was
	// refused: they will probably be refused again, and no other action may wait for them.
	finish, missing, broken, update, again []Action
	// turn is the turn of the node that is being visited.
	turn turn
	cut  bool
}

// repair adds an action that does not depend on the update, unless its node is barred.
func (a *actionQueue) repair(x Action) {
	switch {
	case a.turn == barred:
	case a.turn == last:
		a.again = a.add(a.again, x)
	case x.Kind == Create:
		a.missing = a.add(a.missing, x)
	case x.Kind == Unmark, x.Kind == Restore:
		a.finish = a.add(a.finish, x)
	default:
		a.broken = a.add(a.broken, x)
	}
}

// skipCreate reports whether the plan is to leave the create of a missing pod out because it has as many as it may hold. repair would find that out, too; in
// the first pass of 100,000 nodes it is cheaper not to make the actions.
func (a *actionQueue) skipCreate() bool {
	if a.turn != atOnce || len(a.missing) < a.burst {
		return false
	}
	a.cut = true
	return true
}

// takeBack adds an action that reverts a refused update, even on a barred node, because it is not the write that was refused.
func (a *actionQueue) takeBack(x Action) { a.finish = a.add(a.finish, x) }

// start adds an action of an update if there is still room.
func (a *actionQueue) start(x Action) bool {
	if len(a.finish)+len(a.missing)+len(a.broken)+len(a.update) >= a.burst {
		a.cut = true
		return false
	}
	a.update = append(a.update, x)
	return true
}

// add limits each group to the size of the whole plan, so that 100,000 missing pods are not all listed.
func (a *actionQueue) add(group []Action, x Action) []Action {
	if len(group) >= a.burst {
		a.cut = true
		return group
	}
	return append(group, x)
}

// actions returns the actions in the order in which they are to be started, and whether some were left out.
func (a *actionQueue) actions() ([]Action, bool) {
	all := slices.Concat(a.finish, a.missing, a.broken, a.update, a.again)
	if len(all) > a.burst {
		return all[:a.burst:a.burst], true
	}
	return all, a.cut
}
