// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/rollout"
)

const (
	// maxSamples is how many pods count, the newest ones, and fewSamples how many pods of a new revision are enough to replace what is known.
	maxSamples, fewSamples = 50, 5
	// durationsPause is how long at least after the durations were written they are written again.
	durationsPause = time.Minute
	// writesDurations are writes that no decision waits for.
	writesDurations = "durations"
)

// durations are how long pods of a set take to be updated, from one pass to another by the clock of this process. So they contain how long passes and
// writes take, and a rollout takes the sum of them. Only nodes that are being updated cost anything.
type durations struct {
	// known is what was known before the first sample of this revision, of its annotation or of the revision before. loaded is whether it was read.
	known    everynode.Durations
	loaded   bool
	revision string
	samples  [kindsOfWork][]time.Duration
	// external is whether another controller creates the pods: how long it takes for that counts as part of their start.
	external bool
	// open is what is under way, by node.
	open map[string]work
	// unsaved is since when there are samples that have not been written, and saved when they were written last.
	unsaved, saved time.Time
	// wake is when to write them, from the end of this pass; 0 for never.
	wake time.Duration
}

// workKind is what a pod is doing.
type workKind uint8

const (
	stopping workKind = iota // its delete was sent, it still exists
	starting                 // it was created and is not ready yet
	changing                 // it was changed in place and is not in use again yet
	kindsOfWork
	replacing = kindsOfWork // it is gone, and its successor was not created yet: not measured
)

// work is what is under way on a node: the pod is given by its UID, or before that is known by its revision.
type work struct {
	kind          workKind
	uid, revision string
	since         time.Time
}

// measures reports whether the updates of the set are measured: not where another controller keeps the pods, unless a policy updates them. Only then is
// anything written on the revisions of the other controller.
func (p *pass) measures() bool { return !p.w.Set.ExternalController || p.byPolicy }

// measure takes samples of what has ended on the nodes that are being updated, and notes what the plan has begun.
func (p *pass) measure(s *rollout.Snapshot, plan *rollout.Plan, now time.Time) {
	d := &p.state.durations
	if !p.measures() || s.Set.Update < 0 || s.Set.Update >= len(s.Revisions) {
		return
	}
	d.external = p.w.Set.ExternalController
	if update := s.Revisions[s.Set.Update].Name; update != d.revision {
		d.known, d.revision, d.samples = d.result(), update, [kindsOfWork][]time.Duration{}
	}
	for name, w := range d.open {
		at, found := slices.BinarySearchFunc(s.Nodes, name, func(n rollout.Node, name string) int { return strings.Compare(n.Name, name) })
		if !found || !d.goesOn(s, &s.Nodes[at], w, now) {
			delete(d.open, name)
		}
	}
	for i := range plan.Actions {
		if i < len(p.result.Outcomes) && p.result.Outcomes[i].Done {
			d.begin(s, &plan.Actions[i], now)
		}
	}
}

// goesOn reports whether there is still something to measure on a node.
func (d *durations) goesOn(s *rollout.Snapshot, n *rollout.Node, w work, now time.Time) bool {
	if n.Gone || !n.Ready {
		return false // how long that takes has other reasons
	}
	pod := slices.IndexFunc(n.Pods, func(p rollout.Pod) bool { return w.is(s, &p) })
	switch {
	case w.kind == stopping && pod < 0:
		d.sample(w, now)
		if d.external {
			d.open[n.Name] = work{kind: starting, revision: d.revision, since: now}
			return true // the next pod may be there already
		}
		d.open[n.Name] = work{kind: replacing}
		return lacksPod(n)
	case w.kind == stopping:
		return true
	case w.kind == replacing:
		return lacksPod(n)
	case pod < 0:
		return d.external && lacksPod(n)
	case n.Pods[pod].Deleting:
		return false
	case n.Pods[pod].Ready && n.Pods[pod].InPlace == rollout.InPlaceNone:
		d.sample(w, now)
		return false
	default:
		return true
	}
}

// lacksPod reports whether a pod is to be created on a node.
func lacksPod(n *rollout.Node) bool {
	return n.Fit == rollout.MustRun && !slices.ContainsFunc(n.Pods, func(p rollout.Pod) bool { return !p.Deleting })
}

// is reports whether a pod is the one of the work.
func (w *work) is(s *rollout.Snapshot, p *rollout.Pod) bool {
	if w.kind == starting {
		return !p.Deleting && p.Revision >= 0 && p.Revision < len(s.Revisions) && s.Revisions[p.Revision].Name == w.revision
	}
	return p.UID == w.uid
}

// begin notes an action that was carried out, if it is part of an update: the deletion of an old pod, the creation of the next one where it was or next to
// it, and a change in place.
func (d *durations) begin(s *rollout.Snapshot, a *rollout.Action, now time.Time) {
	n := &s.Nodes[a.Node]
	was, updating := d.open[n.Name]
	w := work{uid: a.UID, since: now}
	switch {
	case !n.Ready || n.Fit != rollout.MustRun:
		return
	case a.Kind == rollout.Delete && slices.ContainsFunc(n.Pods, func(p rollout.Pod) bool {
		return p.UID == a.UID && p.Revision != s.Set.Update && !p.Phase.Terminal()
	}):
		w.kind = stopping
	case a.Kind == rollout.Create && (updating && was.kind == replacing || !lacksPod(n)):
		w.kind, w.revision = starting, s.Revisions[a.Revision].Name
	case a.Kind == rollout.Patch:
		w.kind = changing
	default:
		return
	}
	if d.open == nil {
		d.open = map[string]work{}
	}
	d.open[n.Name] = w
}

// sample keeps how long something took.
func (d *durations) sample(w work, now time.Time) {
	took := now.Sub(w.since)
	if !everynode.Measurable(took) {
		return
	}
	of := append(d.samples[w.kind], took)
	d.samples[w.kind] = of[max(0, len(of)-maxSamples):]
	if d.unsaved.IsZero() {
		d.unsaved = now
	}
}

// result is what is known now.
func (d *durations) result() everynode.Durations {
	r := d.known
	for kind, of := range []*everynode.Duration{stopping: &r.Stop, starting: &r.Start, changing: &r.Change} {
		if n := len(d.samples[kind]); n > 0 && n >= min(fewSamples, of.Pods) {
			*of = summary(d.samples[kind])
		}
	}
	return r
}

// summary summarizes at least one sample. A rollout progresses as nodes become free, so it takes as long as pods do on average, and not as most of them do: where
// half of the pods take 1 s and half of them 9 s, the usual duration is 5 s. A few pods that take very long do not count.
func summary(samples []time.Duration) everynode.Duration {
	sorted := slices.Sorted(slices.Values(samples))
	n := len(sorted)
	var sum time.Duration
	middle := sorted[n/10 : n-n/10]
	for _, d := range middle {
		sum += d
	}
	usual := (sum / time.Duration(len(middle))).Round(time.Millisecond)
	return everynode.Duration{Pods: n, Usual: usual, Long: max(usual, sorted[(9*n-1)/10].Round(time.Millisecond))}
}

// saveDurations writes what was measured on the current revision, at the end of a rollout, and before that at most once in durationsPause. Nothing depends on it, so
// a write that fails is only logged, and tried again in a later pass.
func (p *pass) saveDurations(ctx context.Context, h *clustercache.Resolved, plan *rollout.Plan) {
	d := &p.state.durations
	d.wake = 0
	if h.Current < 0 || !p.measures() {
		return
	}
	d.load(h)
	if d.unsaved.IsZero() {
		return
	}
	since := d.saved
	rests := len(plan.Actions) == 0 && len(d.open) == 0
	if !rests && d.unsaved.After(since) {
		since = d.unsaved
	}
	ended := rests && plan.Status.Updated >= plan.Status.Desired && d.saved.Before(d.unsaved) // a write that failed was made after that, and waits
	if wait := durationsPause - p.c.Clock.Since(since); wait > 0 && !ended {
		d.wake = wait
		return
	}
	d.saved = p.c.Clock.Now()
	current, result := &h.Revisions[h.Current], d.result()
	if current.Durations != result {
		value := map[string]any{everynode.MeasuredDurations: everynode.FormatDurations(result)}
		err := p.patchRevisionAs(ctx, writesDurations, current, metadataPatch(current.UID, "annotations", value))
		if err != nil && !errors.Is(err, errHistoryMoved) && !errors.Is(err, errLater) {
			klog.FromContext(ctx).V(1).Info("The measured durations were not written", "set", p.key.String(), "reason", err.Error())
			return
		}
	}
	d.unsaved = time.Time{}
}

// load reads what a manager before this one has measured: the newest revision that has it.
func (d *durations) load(h *clustercache.Resolved) {
	if d.loaded {
		return
	}
	d.loaded = true
	for i := range h.Revisions {
		if of := h.Revisions[i].Durations; of != (everynode.Durations{}) {
			d.known = of
		}
	}
}
