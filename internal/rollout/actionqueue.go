// SPDX-License-Identifier: Apache-2.0

package rollout

import "slices"

// actionQueue collects the actions of a plan in groups. When there is not room for all of them, those of the later groups are left out.
// That breaks no budget: the nodes of all groups but the update are charged for what they are, not for what is done about
// it, and the update starts only what still has room.
type actionQueue struct {
	burst int
	// finish puts a pod into use that is there already, and costs nothing but the write, so it comes first. missing are creates on
	// nodes without a running pod: they bring service back. broken is what must be done about pods whatever the update
	// starts: deletes of those that cannot stay, and what has begun before. update is what an update starts. again is what must be done
	// on nodes where the last write was refused: most likely it will be again, and nothing may wait for it.
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

// takeBack adds an action that takes a refused update back, also on a node that is barred: it is another write than the one that was refused.
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

// add holds no group longer than the whole plan may be, so that 100,000 missing pods are not all written down.
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
