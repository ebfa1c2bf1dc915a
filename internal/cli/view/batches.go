// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"slices"

	"everynode.dev/everynode/internal/rollout"
)

// Batches is the progress of an update in steps of the size of its budget. As in a plan, a batch is a place in the order
// divided by the budget: a node whose new pod never becomes available prevents its batch from being complete, and uses
// the budget of the next ones.
type Batches struct {
	// Size is the number of nodes of a batch, Total is the number of batches of the update, and Done is the number of
	// complete batches.
	Size, Done, Total int
}

// batchesOf divides the number of done nodes, and the number of nodes that the update can reach, by the budget. Without a
// budget there are no batches.
func batchesOf(done, reach, budget int) Batches {
	if budget <= 0 || reach <= 0 {
		return Batches{}
	}
	w := Batches{Size: budget, Done: done / budget, Total: (reach + budget - 1) / budget}
	if done >= reach {
		w.Done = w.Total // the last one may be smaller
	}
	return w
}

// batch returns the batch that is in progress: ", batch 4 of 6", or "" if there is only one, or none left.
func (m Model) batch() string {
	w := m.Batches
	if w.Total <= 1 || w.Done >= w.Total || len(m.Policy) > 0 { // the waves of a policy have their own line
		return ""
	}
	return fmt.Sprintf(", batch %d of %d", w.Done+1, w.Total)
}

// HeldBySet reports whether a verdict means that the specification of the set excludes the node from the update.
func HeldBySet(kind rollout.VerdictKind) bool {
	return kind.Cause() == rollout.CauseLimit || kind.Cause() == rollout.CausePlacement
}

// reachOf returns how many nodes the update can reach: all nodes that must run a pod, except those that the set
// excludes.
func reachOf(s rollout.Snapshot, p rollout.Plan) int {
	reach := p.Status.Desired
	for i := range min(len(s.Nodes), len(p.Verdicts)) {
		if n := &s.Nodes[i]; n.Fit == rollout.MustRun && !n.Gone && HeldBySet(p.Verdicts[i].Kind) {
			reach--
		}
	}
	return reach
}

// upTo returns who must act for all nodes that are left. A node is not left if it was deleted, needs no pod, or already
// has its new pod, available or not.
func upTo(s rollout.Snapshot, p rollout.Plan) UpTo {
	if byPolicy(s, p) {
		return UpTo{Policy: true}
	}
	var first rollout.VerdictKind
	left := 0
	owners, others, mixed := false, false, false // others wait for something else than owners, or a policy that waits for them
	for i := range min(len(s.Nodes), len(p.Verdicts)) {
		n, kind := &s.Nodes[i], p.Verdicts[i].Kind
		if n.Gone || n.Fit != rollout.MustRun || kind == rollout.UpToDate || kind == rollout.WaitAvailable || HeldBySet(kind) {
			continue
		}
		owners, others = owners || kind == rollout.WaitNodeOwner, others || kind != rollout.WaitNodeOwner && !kind.OfPolicy()
		if left++; left == 1 {
			first = kind
		}
		mixed = mixed || kind != first
	}
	switch {
	case owners && !others:
		return UpTo{Owners: true}
	case left == 0 || mixed:
		return UpTo{}
	}
	return UpTo{Paused: first == rollout.WaitPaused, OnDelete: first == rollout.WaitOnDelete}
}

// byPolicy reports whether a rollout policy holds all nodes that are left, for a soak or an approval for example. A wave whose new pods are not available is no such hold, and neither
// are nodes that only wait for other nodes of the policy: in these cases something should happen.
func byPolicy(s rollout.Snapshot, p rollout.Plan) bool {
	held := false
	for i := range min(len(s.Nodes), len(p.Verdicts)) {
		n, kind := &s.Nodes[i], p.Verdicts[i].Kind
		switch {
		case n.Gone || n.Fit != rollout.MustRun || kind == rollout.UpToDate || HeldBySet(kind):
		case kind == rollout.WaitWave:
		case !kind.OfPolicy() || kind == rollout.WaitOrder || kind == rollout.WaitGroup || kind == rollout.WaitPace || kind == rollout.WaitPolicy:
			return false
		default:
			held = true
		}
	}
	return held
}

// PastPace estimates the speed of an update before the command started, from the times at which the pods of the target
// revision were created or changed in place. If there is none yet, there was no progress since began, the time at which
// the revision was created; 0 if that is unknown.
func PastPace(s rollout.Snapshot, p rollout.Plan, began rollout.Time) Pace {
	var e Estimator
	if began != 0 && began < s.Now && untouched(s, began) {
		now := sampleOf(s, p)
		e.Observe(Sample{At: began, Target: now.Target, Updated: now.Updated, Total: now.Total})
	}
	return e.past(s, p, began)
}

// untouched reports whether an update that started at began has created no pod although there were pods to update. A
// set that had no nodes is not stalled.
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

// pointOf returns when a pod got its revision, as far as the pod shows it: the time of its creation or, if it can be
// changed in place, the last change of its readiness.
func pointOf(p *rollout.Pod) rollout.Time {
	if !p.Gate {
		return p.Created
	}
	return max(p.Created, p.ReadySince)
}

// past adds what the pods show. If the start of the update is unknown, because it goes back to an earlier revision,
// pods that are older than a pod of another revision are ignored: they may be from an earlier rollout.
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

// sampleOf returns the sample of an update at one moment.
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
