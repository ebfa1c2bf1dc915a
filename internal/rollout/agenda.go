// SPDX-License-Identifier: Apache-2.0

package rollout

// agenda collects the actions of a plan in three groups. When there is not room for all of them, those of the later groups
// are left out. That breaks no budget: the nodes of the first two groups are charged for what they are, not for what is done
// about it, and the update starts only what still has room.
type agenda struct {
	burst int
	// missing are creates on nodes without a running pod: they bring service back, so they come first. broken is what has
	// to be done about pods whatever the update starts: deletes of those that cannot stay, and what has begun before. update is what an update starts; it has to fit into what the others leave.
	missing, broken, update []Action
	cut                     bool
}

func (a *agenda) restore(x Action) { a.missing = a.add(a.missing, x) }

func (a *agenda) repair(x Action) { a.broken = a.add(a.broken, x) }

// start adds an action of an update if there is still room.
func (a *agenda) start(x Action) bool {
	if len(a.missing)+len(a.broken)+len(a.update) >= a.burst {
		a.cut = true
		return false
	}
	a.update = append(a.update, x)
	return true
}

// add holds no group longer than the whole plan may be, so that 100,000 missing pods are not all written down.
func (a *agenda) add(group []Action, x Action) []Action {
	if len(group) >= a.burst {
		a.cut = true
		return group
	}
	return append(group, x)
}

// actions returns the actions in the order in which they are to be started, and whether some were left out.
func (a *agenda) actions() ([]Action, bool) {
	all := append(append(a.missing, a.broken...), a.update...)
	if len(all) > a.burst {
		return all[:a.burst:a.burst], true
	}
	return all, a.cut
}
