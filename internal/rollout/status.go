// SPDX-License-Identifier: Apache-2.0

package rollout

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

// awaitAvailable asks for another decision when a ready pod becomes available: nothing else will tell.
func (d *decision) awaitAvailable(pods []Pod) {
	for i := range pods {
		p := &pods[i]
		if p.ready() && p.ReadySince != 0 && !p.ignored() && !d.available(p) {
			d.wakeAt(p.ReadySince.Add(d.in.Set.MinReady))
		}
	}
}
