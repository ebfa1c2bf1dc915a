// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"slices"
	"time"
)

// The back-off of failed pods: the first is replaced at once, the next not within a second of it, then two, four and so
// on. A node where none was replaced for twice the longest delay starts afresh.
const (
	firstDelay = time.Second
	lastDelay  = 15 * time.Minute
)

// inBackoff reports whether the failed pods of a node must wait; if so, Decide wants to be asked again when they need not.
func (d *decision) inBackoff(node string) bool {
	b, found := d.backoffOf(node)
	if !found {
		return false
	}
	until := b.Last.Add(b.Delay)
	if until <= d.in.Now {
		return false
	}
	d.wakeAt(until)
	return true
}

// backoffOf looks up the back-off of a node. A back-off that was counted for another revision does not apply:
// the new revision may have been created to fix the problem.
func (d *decision) backoffOf(node string) (Backoff, bool) {
	m := &d.in.Memory
	if m.Update != d.revisionName() {
		return Backoff{}, false
	}
	i, found := slices.BinarySearchFunc(m.Backoffs, node, func(b Backoff, name string) int { return cmp.Compare(b.Node, name) })
	if !found || d.expired(m.Backoffs[i]) {
		return Backoff{}, false
	}
	return m.Backoffs[i], true
}

// expired reports whether a back-off has ended for good. One with a later time than now is from another clock, which does not count.
func (d *decision) expired(b Backoff) bool {
	return b.Last > d.in.Now || b.Last.Add(2*lastDelay) < d.in.Now
}

func (d *decision) revisionName() string {
	if !d.usable {
		return ""
	}
	return d.in.Revisions[d.in.Set.Update].Name
}

// remember adds the failed pods that this plan replaces, and removes entries that are no longer needed.
func (d *decision) remember(actions []Action) Memory {
	if !d.usable {
		return d.in.Memory
	}
	m := Memory{Update: d.revisionName()}
	for i := range actions {
		if actions[i].Reason == ReplacingFailed {
			m.Backoffs = append(m.Backoffs, d.nextBackoff(d.in.Nodes[actions[i].Node].Name))
		}
	}
	if d.in.Memory.Update == m.Update {
		for _, b := range d.in.Memory.Backoffs {
			if !d.expired(b) && d.hasNode(b.Node) {
				m.Backoffs = append(m.Backoffs, b)
			}
		}
	}
	// Stable, so that what this plan did comes before what was known; the first entry of a node counts.
	slices.SortStableFunc(m.Backoffs, func(a, b Backoff) int { return cmp.Compare(a.Node, b.Node) })
	m.Backoffs = slices.CompactFunc(m.Backoffs, func(a, b Backoff) bool { return a.Node == b.Node })
	return m
}

// nextBackoff is the back-off of a node after one more replacement.
func (d *decision) nextBackoff(node string) Backoff {
	delay := firstDelay
	if b, found := d.backoffOf(node); found {
		delay = min(max(2*min(b.Delay, lastDelay), firstDelay), lastDelay)
	}
	return Backoff{Node: node, Delay: delay, Last: d.in.Now}
}

func (d *decision) hasNode(node string) bool {
	_, found := slices.BinarySearchFunc(d.in.Nodes, node, func(n Node, name string) int { return cmp.Compare(n.Name, name) })
	return found
}

// notes reports the pods that have ended and are replaced.
func notes(actions []Action) []Note {
	var out []Note
	for i, a := range actions {
		switch a.Reason {
		case ReplacingFailed:
			out = append(out, Note{Kind: FoundFailedPod, Node: a.Node, Action: i, Pod: a.Pod})
		case ReplacingEnded:
			out = append(out, Note{Kind: FoundSucceededPod, Node: a.Node, Action: i, Pod: a.Pod})
		}
	}
	return out
}
