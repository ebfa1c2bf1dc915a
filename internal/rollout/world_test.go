// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"time"
)

// world is a World in which everybody else is played too (scheduler, kubelets, pod garbage collector). It is rough on purpose; the
// simulator of the project is the fine one.
type world struct {
	World
	// broken and crashing are the revisions whose pods never become ready, or fail at once.
	broken, crashing []int
	// stuck are the nodes whose kubelet does nothing, clinging those whose preDelete hook never releases a pod.
	stuck, clinging []string
	harm
}

// tick lets everybody else do one thing and says whether anything changed.
func (w *world) tick() bool {
	changed := false
	for i := range w.State.Nodes {
		n := &w.State.Nodes[i]
		if n.ImageWait && n.ImageUntil == 0 { // the images are pulled now, and never arrive
			n.ImageUntil, changed = w.State.Now.Add(3*time.Second), true
		}
		w.suffer(n)
		if slices.Contains(w.stuck, n.Name) && !n.Gone {
			continue
		}
		kept := n.Pods[:0]
		for _, p := range n.Pods {
			switch {
			case p.Deleting && w.State.Now.Sub(p.DeletedAt) < w.linger:
				changed, kept = true, append(kept, p)
			case p.Deleting, n.Gone && p.Scheduled:
				changed = true
			default:
				changed = w.grow(&p, n) || changed
				kept = append(kept, p)
			}
		}
		n.Pods = kept
	}
	w.State.Nodes = slices.DeleteFunc(w.State.Nodes, func(n Node) bool { return n.Gone && len(n.Pods) == 0 })
	return changed
}

// grow moves a pod one step along its life.
func (w *world) grow(p *Pod, n *Node) bool {
	before := *p
	if p.Hook == HookWaiting && !slices.Contains(w.clinging, n.Name) {
		p.Hook = HookReleased
	}
	switch {
	case p.Phase.Terminal() || n.Gone:
	case !p.Scheduled:
		p.Scheduled = true
	case slices.Contains(w.crashing, p.Revision):
		p.Phase, p.Ready = Failed, false
	case slices.Contains(w.broken, p.Revision) || !n.Ready:
		p.Phase = Running
		p.Ready = p.Ready && p.InPlace == InPlaceNone
	case p.InPlace != InPlaceNone:
		p.Phase, p.Ready = Running, false
		if p.InPlace == InPlacePatched && p.Stuck == NoDetail {
			p.Arrive()
		}
	case !p.Ready:
		p.Phase, p.Ready, p.ReadySince = Running, true, w.State.Now
	}
	return *p != before
}

// step decides, applies and lets time pass: a second, or until the plan wants to be asked again when nothing else happens.
// done is whether nothing will ever happen again.
func (w *world) step() (plan Plan, done bool, err error) {
	plan = Decide(w.State)
	if err := w.Apply(plan); err != nil {
		return plan, true, err
	}
	kept, err := w.Keep()
	if err != nil {
		return plan, true, fmt.Errorf("the other controller: %w", err)
	}
	next := w.State.Now.Add(time.Second)
	changed := w.tick()
	if !changed && len(plan.Actions)+len(plan.Announcements)+len(kept.Actions) == 0 {
		wake := plan.Wake
		if wake == 0 || kept.Wake != 0 && kept.Wake < wake {
			wake = kept.Wake
		}
		if wake == 0 {
			return plan, true, nil
		}
		next = max(wake, w.State.Now.Add(1))
	}
	w.State.Now = next
	return plan, false, nil
}

// copy returns a world that shares nothing with w that either of them changes.
func (w *world) copy() *world {
	c := *w
	c.World = w.World.Copy()
	return &c
}
