// SPDX-License-Identifier: Apache-2.0

package metrics

import "everynode.dev/everynode/internal/rollout"

// standing is what one decision says of how far the update of its set has come.
type standing struct {
	now rollout.Time
	// revision is the wanted one; empty while it is not known, and then nothing else is.
	revision string
	// rolls is whether old pods are replaced without a request for each.
	rolls   bool
	desired int
	// left are the nodes on which something is to happen by itself, be it when they are back; waits is whether one of these is ready. A node
	// that waits for a person (paused, partition, preDelete hook) is not left, nor is one for which a write was refused: other alerts report that.
	left  int
	waits bool
	// open are these nodes and those that wait for a person: what there is between now and the end. Pause and resume move nodes within them.
	open int
	// updates is whether one of these nodes is in the middle of an update, or before it.
	updates bool
	// empty is whether no node has a pod: so begins a set that is new.
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
	// rolling is whether an update is under way, stuck whether a node that is ready waits for its end.
	rolling, stuck bool
	// least is the lowest number of nodes that were open since it began, reached when that was so first. A pod that comes and goes, and a node
	// that joins and gets its pod, lower it no further, so neither looks like progress: 5 open, a node joins (6), gets its pod (5).
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

// earlier is the earlier of two times, where 0 is never.
func earlier(a, b rollout.Time) rollout.Time {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
