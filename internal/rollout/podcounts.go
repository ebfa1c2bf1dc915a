// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"slices"
)

// podCounts is what the pods of one node amount to.
type podCounts struct {
	// seen counts all pods but the ignored ones, terminating those of them that are being deleted. The others are live;
	// they are running (which includes pending), failed or ended.
	seen, terminating, failed, ended, running int32
	// preparing counts the pods that are preparing to be deleted and not restored, waiting those of them that their hook
	// has not released. They are neither live nor terminating.
	preparing, waiting int32
	// restored is the preparing pod that is wanted again; it is live and not available.
	restored *Pod
	// oldest is the oldest pod seen; the status looks at no other.
	oldest *Pod
	// keep is the oldest running pod, current the oldest running one of the wanted revision, old that of any other: with surge the oldest one
	// that is ready, if there is one.
	keep, current, old *Pod
	// wanted counts the live pods of the wanted revision, whether they have ended or not; ready is whether a running one
	// of them is available.
	wanted int32
	ready  bool
	// changing reports whether a change in place of a running pod is under way.
	changing bool
}

// live counts the pods that are neither being deleted nor preparing for it.
func (c *podCounts) live() int32 { return c.failed + c.ended + c.running }

// countPods counts the pods of a node. It fills the counts in place: to copy one costs more than to make it.
func (d *decision) countPods(t *nodeContext) {
	c := &t.podCounts
	for i := range t.pods {
		p := &t.pods[i]
		if p.ignored() {
			continue
		}
		c.seen++
		if c.oldest == nil {
			c.oldest = p
		}
		if p.Deleting {
			c.terminating++
			continue
		}
		d.announcementsDue = d.announcementsDue || d.stale(t.index, p)
		if p.preparing() {
			d.countPreparing(t, p)
			continue
		}
		d.countLive(c, p)
	}
	if c.restored != nil {
		d.decideRestore(t)
	}
}

func (d *decision) countLive(c *podCounts, p *Pod) {
	if p.Revision == d.in.Set.Update {
		c.wanted++
	}
	switch p.Phase {
	case Failed:
		c.failed++
	case Succeeded:
		c.ended++
	default:
		d.countRunning(c, p)
	}
}

func (d *decision) countRunning(c *podCounts, p *Pod) {
	c.running++
	if c.keep == nil {
		c.keep = p
	}
	c.changing = c.changing || p.InPlace != InPlaceNone
	if p.Revision != d.in.Set.Update {
		if c.old == nil || d.surge && !c.old.ready() && p.ready() {
			c.old = p
		}
		return
	}
	if c.current == nil {
		c.current = p
	}
	c.ready = c.ready || d.serving(p)
}

// ignored reports whether nothing is left to do with a pod except to wait until the API server removes it.
func (p *Pod) ignored() bool { return p.Deleting && p.Phase.Terminal() }

// ready reports whether a pod is ready. In the middle of a change in place it is not: its condition may be an old one.
func (p *Pod) ready() bool { return p.Ready && p.InPlace == InPlaceNone }

// serving reports whether the budget may count on a pod: it is available for certain, and not about to be deleted.
func (d *decision) serving(p *Pod) bool { return !p.preparing() && !p.Doubtful && d.available(p) }

// available reports whether a pod has been ready for as long as the set asks for.
func (d *decision) available(p *Pod) bool {
	if !p.ready() || d.in.Set.MinReady <= 0 {
		return p.ready()
	}
	return p.ReadySince != 0 && p.ReadySince.Add(d.in.Set.MinReady) <= d.in.Now
}

// byAge returns pods with the oldest first, in the order in which upstream keeps them: scheduled before unscheduled, then
// by creation, then by name.
func (d *decision) byAge(pods []Pod) []Pod {
	if len(pods) < 2 {
		return pods
	}
	return d.sorted(pods)
}

// sorted is byAge for several pods. It is a function of its own because most nodes have one pod, and byAge is small enough to be inlined.
func (d *decision) sorted(pods []Pod) []Pod {
	if slices.IsSortedFunc(pods, compareAge) {
		return pods
	}
	d.scratch = append(d.scratch[:0], pods...)
	slices.SortStableFunc(d.scratch, compareAge)
	return d.scratch
}

func compareAge(a, b Pod) int {
	if a.Scheduled != b.Scheduled {
		if a.Scheduled {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.Created, b.Created), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}

// hasRevision reports whether any pod of the node is of a revision.
func (t *nodeContext) hasRevision(revision int) bool {
	for i := range t.pods {
		if t.pods[i].Revision == revision {
			return true
		}
	}
	return false
}

func (t *nodeContext) create(revision int, reason VerdictKind) Action {
	return Action{Kind: Create, Node: t.index, Revision: revision, Reason: reason}
}

func (t *nodeContext) act(kind ActionKind, p *Pod, reason VerdictKind) Action {
	return Action{Kind: kind, Node: t.index, Pod: p.Name, UID: p.UID, Revision: p.Revision, Reason: reason}
}
