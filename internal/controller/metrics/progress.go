// SPDX-License-Identifier: Apache-2.0

package metrics

import "everynode.dev/everynode/internal/rollout"

// standing is the progress of the update of a set, from one decision.
type standing struct {
	now rollout.Time
	// revision is the wanted one; empty while it is not known, and then nothing else is.
	revision string
	// rolls reports whether old pods are replaced without a request for each.
	rolls   bool
	desired int
	// left is the number of nodes with outstanding automatic work, including nodes that must become ready first;
	// waits reports whether one of these is ready. A node that waits for a user (paused, partition, preDelete
	// hook) is not counted, and neither is a node for which a write was refused: other alerts report that.
	left  int
	waits bool
	// open is the number of these nodes and of the nodes that wait for a user: all nodes that remain until the
	// end of the update. Pausing and resuming does not change it.
	open int
	// updates reports whether one of these nodes is being updated, or is yet to be updated.
	updates bool
	// empty reports whether no node has a pod, as for a new set.
	empty bool
}

// standingOf reads a decision.
func standingOf(s *rollout.Snapshot, p *rollout.Plan) standing {
	at := standing{now: s.Now, rolls: s.Set.Strategy == rollout.RollingUpdate, desired: p.Status.Desired, empty: p.Status.Current == 0}
	if u := s.Set.Update; u >= 0 && u < len(s.Revisions) {
		at.revision = s.Revisions[u].Name
	}
	for i := range p.Verdicts {
		kind := p.Verdicts[i].Kind
		if !kind.Continues() {
			if kind.Waits() && kind.Cause() != rollout.CauseCollector {
				at.open++
			}
			continue
		}
		at.left++
		at.open++
		at.waits = at.waits || s.Nodes[i].Ready
		at.updates = at.updates || kind.OfUpdate()
	}
	return at
}

// progress is what is remembered of the update of a set from one decision to the next. Losing it makes an update look as if it had just
// begun, and a last wave like pods that have failed long after theirs.
type progress struct {
	// revision and desired are what the last decision said; without a revision there was none.
	revision string
	desired  int
	// rolling reports whether an update is active, and stuck whether a ready node waits for its end.
	rolling, stuck bool
	// least is the lowest number of open nodes since the update began, and reached is when it was first reached.
	// A pod that comes and goes, or a node that joins and gets its pod, does not lower it, so neither looks like
	// progress: 5 open, a node joins (6), gets its pod (5).
	least   int
	reached rollout.Time
}

// next is what is remembered after one more decision.
func (p progress) next(at standing) progress {
	if at.revision == "" {
		return p
	}
	is := p
	is.revision, is.desired, is.stuck = at.revision, at.desired, at.waits
	fresh := at.revision != p.revision
	if p.revision == "" { // not seen before: it may be anywhere in its update, or have a pod that has failed long after one
		fresh = at.updates || at.empty
	}
	switch {
	case at.left == 0 || !at.rolls:
		is.rolling = false
	case fresh, !p.rolling && at.updates:
		is.rolling, is.least, is.reached = true, at.open, at.now
	case at.open < p.least:
		is.least = at.open
		if at.desired >= p.desired { // else a node has gone, which is not progress
			is.reached = at.now
		}
	}
	return is
}

// since is when the active update last made progress; 0 if no update is active, or if it waits only for nodes that are not ready.
func (p progress) since() rollout.Time {
	if !p.rolling || !p.stuck {
		return 0
	}
	return p.reached
}
