// SPDX-License-Identifier: Apache-2.0

package rollout

// visitUntouched is visitNode for a node where all is well, and says whether it was one. On most nodes of most clusters one pod runs, of the wanted
// revision, and is available, so the result of the full evaluation is known in advance: there is nothing to do. It counts what
// the long way counts, and gives the same verdict; a test goes both ways.
func (d *decision) visitUntouched(i int) bool {
	n := &d.in.Nodes[i]
	if !d.usable || len(n.Pods) != 1 || n.Unanswered || n.Fit != MustRun || n.Gone || !n.Ready && d.in.Set.Unreachable.Skip {
		return false
	}
	p := &n.Pods[0]
	if p.Revision != d.in.Set.Update || p.Deleting || p.Phase.Terminal() || !d.serving(p) || d.stale(i, p) {
		return false
	}
	d.untouched++
	d.verdicts[i] = Verdict{Kind: UpToDate}
	return true
}

// countUntouched adds the nodes where all is well to the numbers.
func (d *decision) countUntouched() {
	st := &d.status
	for _, number := range []*int{&st.Desired, &st.Current, &st.Ready, &st.Updated, &st.Available} {
		*number += d.untouched
	}
	if d.in.Set.Strategy == RollingUpdate {
		d.usage.available += d.untouched
	}
}
