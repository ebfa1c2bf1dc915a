// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"slices"
	"time"
)

// count adds a node to the status, as upstream does: the oldest pod speaks for its node, also when it is terminating; a
// node that is gone, or not evaluated, counts nowhere.
func (d *decision) count(t *nodeContext) {
	if t.node.Gone {
		return
	}
	d.awaitAvailable(t.pods)
	st := &d.status
	switch t.node.Fit {
	case MustRun:
		st.Desired++
		if t.seen > 0 {
			st.Current++
			d.countOldest(t.oldest)
		}
	case MayStay, MustLeave:
		if t.seen > 0 {
			st.Misscheduled++
		}
	}
}

func (d *decision) countOldest(p *Pod) {
	st := &d.status
	if p.ready() {
		st.Ready++
	}
	if d.available(p) {
		st.Available++
	}
	if d.usable && p.Revision == d.in.Set.Update {
		st.Updated++
	}
}

// CountUpdated returns the number of nodes whose pod, as the status counts it, is of a revision. While a policy returns nodes to an earlier revision, the
// status still speaks of the one that the template describes.
func (s *Snapshot) CountUpdated(revision int) int {
	d, n := begin(s), 0
	for i := range s.Nodes {
		if s.Nodes[i].Gone || s.Nodes[i].Fit != MustRun {
			continue
		}
		pods := d.byAge(s.Nodes[i].Pods)
		oldest := slices.IndexFunc(pods, func(p Pod) bool { return !p.ignored() })
		if oldest >= 0 && pods[oldest].Revision == revision {
			n++
		}
	}
	return n
}

// StallAfter is how long a pod may report trouble, and not be ready, before that counts as a rollout that does not continue by itself. It is the
// progressDeadlineSeconds that a Deployment has by default.
const StallAfter = 10 * time.Minute

// LateAt returns when a pod has been terminating, or not ready, for StallAfter; 0 if it is neither, or that is not known. A pod without the condition
// Ready has not been ready since it was created.
func (p *Pod) LateAt() Time {
	since := cmp.Or(p.ReadySince, p.Created)
	switch {
	case p.Deleting:
		since = p.DeletedAt
	case p.Ready:
		return 0
	}
	if since == 0 {
		return 0
	}
	return since.Add(StallAfter)
}

// StallsAt returns when a pod in trouble has not been ready for StallAfter, and whether it is in trouble at all.
func (p *Pod) StallsAt() (at Time, stalls bool) {
	at = p.LateAt()
	return at, at != 0 && p.Trouble != "" && !p.Deleting
}

// StallsNext returns when the next pod is late; 0 for never. No event reports this, and no decision depends on it, but the status may.
func (s *Snapshot) StallsNext() (next Time) {
	for i := range s.Nodes {
		for k := range s.Nodes[i].Pods {
			if at := s.Nodes[i].Pods[k].LateAt(); at > s.Now && (next == 0 || at < next) {
				next = at
			}
		}
	}
	return next
}

// awaitAvailable asks for another decision when a ready pod becomes available: no event reports that.
func (d *decision) awaitAvailable(pods []Pod) {
	for i := range pods {
		p := &pods[i]
		if p.ready() && p.ReadySince != 0 && !p.ignored() && !d.available(p) {
			d.wakeAt(p.ReadySince.Add(d.in.Set.MinReady))
		}
	}
}
