// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
)

// The invariants that are about limits, hooks and changes in place.

func hooksAreAsked(d *dumb, p Plan) error {
	for _, a := range p.Actions {
		if a.Kind == Create {
			continue
		}
		f, pod := d.nodes[a.Node], d.pod(a)
		switch {
		case a.Kind == Delete && !f.Gone && (pod.Hook == HookArmed || pod.Hook == HookWaiting):
			return fmt.Errorf("%s is deleted, and its hook is %s", a.Pod, pod.Hook)
		case a.Kind == Prepare && pod.Hook != HookArmed:
			return fmt.Errorf("%s is prepared, and its hook is %s", a.Pod, pod.Hook)
		case a.Kind == Restore && !preparing(*pod):
			return fmt.Errorf("%s is restored, and its hook is %s", a.Pod, pod.Hook)
		case a.Kind == Restore && pod.Revision != d.s.Set.Update && !pod.Evicted && d.s.Set.Strategy == RollingUpdate && !protected(f, *pod):
			return fmt.Errorf("%s is restored, and its update has begun", a.Pod)
		}
	}
	return nil
}

func stepByStep(d *dumb, p Plan) error {
	for i, a := range p.Actions {
		if a.Kind == Create {
			continue
		}
		pod := d.pod(a)
		marked := slices.ContainsFunc(p.Actions[:i], func(b Action) bool { return b.Kind == Mark && b.UID == a.UID })
		possible := (pod.Gate || !d.closesGate()) && d.s.Set.InPlace && !d.surge() && d.whyNot(d.nodes[a.Node], *pod) == NoDetail
		switch {
		case a.Kind == Resume && (pod.InPlace != InPlaceAnnounced || pod.GraceUntil > d.s.Now || d.hopeless(d.nodes[a.Node], *pod)):
			return fmt.Errorf("%s is changed as announced, and its change in place is %s", a.Pod, pod.InPlace)
		case a.Kind == Delete && a.Reason == Recreating && pod.InPlace == InPlacePatched && pod.Revision == d.s.Set.Update && !preparing(*pod) &&
			!d.hopeless(d.nodes[a.Node], *pod):
			return fmt.Errorf("%s is given up although its node may still run its change", a.Pod)
		case (a.Kind == Mark || a.Kind == Patch) && !possible:
			return fmt.Errorf("%s cannot be changed in place", a.Pod)
		case a.Kind == Mark && (pod.InPlace != InPlaceNone || !d.closesGate()):
			return fmt.Errorf("%s is marked, and its change in place is %s", a.Pod, pod.InPlace)
		case a.Kind == Patch && pod.InPlace == InPlaceNone && d.closesGate() && (!marked || d.s.Set.Grace > 0):
			return fmt.Errorf("%s is patched while it may be ready", a.Pod)
		case a.Kind == Patch && pod.InPlace == InPlaceAnnounced:
			return fmt.Errorf("%s is patched before what was announced", a.Pod)
		case a.Kind == Patch && pod.InPlace == InPlaceMarked && pod.GraceUntil > d.s.Now:
			return fmt.Errorf("%s is patched before its time", a.Pod)
		case a.Kind == Patch && a.Revision != d.s.Set.Update:
			return fmt.Errorf("%s is patched to revision %d", a.Pod, a.Revision)
		case a.Kind == Unmark && (pod.InPlace == InPlaceNone || pod.InPlace == InPlacePatched || pod.InPlace == InPlaceAnnounced):
			return fmt.Errorf("%s is made ready, and its change in place is %s", a.Pod, pod.InPlace)
		}
	}
	return nil
}

// starting is whether the plan starts the update of a node that is neither done nor in the middle of it.
func (d *dumb) starting(p Plan, f facts) bool {
	if !d.mayRun(f) || d.counts(f) || d.fresh(f) || d.s.Set.Strategy != RollingUpdate {
		return false
	}
	return slices.ContainsFunc(p.Actions, func(a Action) bool {
		sole := len(f.live) == 1 && len(f.old) == 1
		switch {
		case a.Node != f.index:
			return false
		case a.Kind == Create: // a missing pod is of the wanted revision in any case if its last one was, or nothing is known of that
			return a.Revision == d.s.Set.Update && (a.Reason == Surging || d.remembers(f) && f.Last != a.Revision)
		case a.Kind == Delete, a.Kind == Prepare:
			return sole && a.UID == f.old[0].UID
		default:
			return a.Kind == Mark || a.Kind == Patch
		}
	})
}

func pauseIsKept(d *dumb, p Plan) error {
	for _, f := range d.nodes {
		if d.s.Set.Paused && d.starting(p, f) {
			return fmt.Errorf("%s is updated", f.Name)
		}
	}
	return nil
}

func eligibilityIsKept(d *dumb, p Plan) error {
	for _, f := range d.nodes {
		if d.s.Set.EligibleOnly && f.Fit == MayStay && d.starting(p, f) {
			return fmt.Errorf("%s is updated", f.Name)
		}
	}
	return nil
}

func selectorIsKept(d *dumb, p Plan) error {
	for _, f := range d.nodes {
		if d.s.Set.Selective && !f.Selected && d.starting(p, f) {
			return fmt.Errorf("%s is updated", f.Name)
		}
	}
	return nil
}

func partitionIsKept(d *dumb, p Plan) error {
	keep, done, started := d.kept(), 0, 0
	if keep == 0 || d.s.Set.Strategy != RollingUpdate {
		return nil
	}
	for _, f := range d.nodes {
		starts := d.starting(p, f)
		_, creates := d.after(p, f)
		switch {
		case starts && f.Fit == MayStay:
			return fmt.Errorf("%s is updated, and takes part in no partition", f.Name)
		case starts, d.mayRun(f) && d.fresh(f) && d.s.Set.Progressive && creates > 0:
			started++
		case d.mayRun(f) && f.Fit == MustRun && (d.counts(f) || d.fresh(f) && !d.s.Set.Progressive):
			done++
		}
	}
	if started > 0 && done+started > d.desired()-keep {
		return fmt.Errorf("%d updated, %d started, %d of %d are to be kept", done, started, keep, d.desired())
	}
	return nil
}

// heldNodesKeep: a pod that replaces one on a node that the update must not start on is of the revision of that one.
func heldNodesKeep(d *dumb, p Plan) error {
	limited := d.s.Set.Strategy == RollingUpdate
	for _, a := range p.Actions {
		f := d.nodes[a.Node]
		if a.Kind != Create || a.Reason != Creating {
			continue
		}
		known := d.remembers(f) && !d.counts(f)
		keeps := limited && (d.s.Set.Paused || d.s.Set.Selective && !f.Selected || d.kept() >= d.desired()) || d.gate(f) != 0
		switch {
		case known && keeps && a.Revision != f.Last:
			return fmt.Errorf("%s had revision %d and gets %d", f.Name, f.Last, a.Revision)
		case a.Revision != d.s.Set.Update && d.gate(f) == 0 && !(limited && (d.s.Set.Paused || d.s.Set.Selective || d.kept() > 0)):
			return fmt.Errorf("%s gets revision %d, and nothing holds it", f.Name, a.Revision)
		}
	}
	return nil
}
