// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"slices"

	"everynode.dev/everynode/internal/rollout"
)

// Waves says how far an update has come in steps as large as its budget. As in a plan, a wave is a place in the order divided by the budget: a
// node whose new pod never becomes available keeps its wave from being complete, and with it the update from going on.
type Waves struct {
	// Size is the number of nodes of a wave, Total how many waves the update has, and Done how many of them are complete.
	Size, Done, Total int
}

// wavesOf divides the nodes that are done, and those that the update may come to, by the budget; without a budget there are no waves.
func wavesOf(done, reach, budget int) Waves {
	if budget <= 0 || reach <= 0 {
		return Waves{}
	}
	w := Waves{Size: budget, Done: done / budget, Total: (reach + budget - 1) / budget}
	if done >= reach {
		w.Done = w.Total // the last one may be smaller
	}
	return w
}

// wave says which wave is under way: ", wave 4 of 6"; empty where there is only one, or none left.
func (m Model) wave() string {
	w := m.Waves
	if w.Total <= 1 || w.Done >= w.Total {
		return ""
	}
	return fmt.Sprintf(", wave %d of %d", w.Done+1, w.Total)
}

// HeldBySet is whether a verdict means that the update is not to come to the node, for as long as the set says so.
func HeldBySet(kind rollout.VerdictKind) bool {
	return kind.Cause() == rollout.CauseLimit || kind.Cause() == rollout.CausePlacement
}

// reachOf is how many nodes the update may come to: all on which a pod has to run, but those that the set itself keeps as they are.
func reachOf(s rollout.Snapshot, p rollout.Plan) int {
	reach := p.Status.Desired
	for i := range min(len(s.Nodes), len(p.Verdicts)) {
		if n := &s.Nodes[i]; n.Fit == rollout.MustRun && !n.Gone && HeldBySet(p.Verdicts[i].Kind) {
			reach--
		}
	}
	return reach
}

// upTo says for whom all nodes wait that are left. Nodes that are gone, or need no pod, are not left; neither are those whose new pod is there,
// available or not: they are updated.
func upTo(s rollout.Snapshot, p rollout.Plan) UpTo {
	var first rollout.VerdictKind
	left := 0
	for i := range min(len(s.Nodes), len(p.Verdicts)) {
		n, kind := &s.Nodes[i], p.Verdicts[i].Kind
		if n.Gone || n.Fit != rollout.MustRun || kind == rollout.UpToDate || kind == rollout.WaitAvailable || HeldBySet(kind) {
			continue
		}
		if left++; left > 1 && kind != first {
			return UpTo{}
		}
		first = kind
	}
	if left == 0 {
		return UpTo{}
	}
	return UpTo{Owners: first == rollout.WaitNodeOwner, Paused: first == rollout.WaitPaused, OnDelete: first == rollout.WaitOnDelete}
}

// PastPace is how fast an update has gone before somebody began to look, as far as the pods that are there tell: when those of the wanted
// revision were made, or changed in place. Where there is none yet, nothing has moved since began, when the revision was made; 0 where that is not known.
func PastPace(s rollout.Snapshot, p rollout.Plan, began rollout.Time) Pace {
	var e Estimator
	if began != 0 && began < s.Now && untouched(s, began) {
		now := sampleOf(s, p)
		e.Observe(Sample{At: began, Target: now.Target, Updated: now.Updated, Total: now.Total})
	}
	return e.past(s, p, began)
}

// untouched is whether an update that began then has made no pod, though pods were there to be updated: a set that had no node is not stuck for
// as long as it had none.
func untouched(s rollout.Snapshot, began rollout.Time) bool {
	waits := false
	for _, node := range s.Nodes {
		for _, pod := range node.Pods {
			if pod.Revision == s.Set.Update {
				return false
			}
			waits = waits || !node.Gone && pod.Created != 0 && pod.Created <= began
		}
	}
	return waits
}

// pointOf is when a pod came to its revision, as far as it tells: when it was made, or, if it can be changed in place, when it last became ready, or
// ceased to be, which it does on the way.
func pointOf(p *rollout.Pod) rollout.Time {
	if !p.Gate {
		return p.Created
	}
	return max(p.Created, p.ReadySince)
}

// past takes in what the pods tell. Where nobody knows when the update began, because it goes back to an earlier revision, pods that are older than
// one of another revision tell nothing: they may be of the roll before.
func (e *Estimator) past(s rollout.Snapshot, p rollout.Plan, began rollout.Time) Pace {
	var made []rollout.Time
	var from rollout.Time
	for _, node := range s.Nodes {
		for _, pod := range node.Pods {
			switch {
			case pod.Created == 0:
			case pod.Revision != s.Set.Update && began == 0:
				from = max(from, pointOf(&pod))
			case pod.Revision == s.Set.Update && !pod.Deleting && !pod.Phase.Terminal():
				made = append(made, pointOf(&pod))
			}
		}
	}
	slices.Sort(made)
	now := sampleOf(s, p)
	for i, at := range made {
		if at >= from && at < s.Now {
			e.Observe(Sample{At: at, Target: now.Target, Updated: i + 1, Total: now.Total})
		}
	}
	return e.Observe(now)
}

// sampleOf is what can be observed of an update at one moment.
func sampleOf(s rollout.Snapshot, p rollout.Plan) Sample {
	return Sample{
		At:      s.Now,
		Target:  revisionName(s, s.Set.Update),
		Updated: statusOf(s, p).Updated,
		Total:   reachOf(s, p),
		Untried: !slices.ContainsFunc(p.Verdicts, func(v rollout.Verdict) bool { return v.Kind == rollout.UpToDate }),
		UpTo:    upTo(s, p),
	}
}
