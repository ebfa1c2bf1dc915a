// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"time"
)

// world is an imaginary cluster around one set: it carries out plans and plays everybody else (scheduler, kubelets, pod
// garbage collector). It is rough on purpose; the simulator of the project is the fine one.
type world struct {
	s Snapshot
	// broken and crashing are the revisions whose pods never become ready, or fail at once.
	broken, crashing []int
	// stuck are the nodes whose kubelet does nothing, clinging those whose preDelete hook never releases a pod.
	stuck, clinging []string
	// hooked is whether new pods have an armed preDelete hook.
	hooked bool
	// named counts the pods that the world has made.
	named int
	harm
}

// apply carries out the actions of a plan. An action that makes no sense in this world is an error of Decide.
func (w *world) apply(p Plan) error {
	for _, a := range p.Actions {
		if a.Node < 0 || a.Node >= len(w.s.Nodes) {
			return fmt.Errorf("action %+v names no node", a)
		}
		n := &w.s.Nodes[a.Node]
		if a.Kind == Create {
			w.create(n, a.Revision)
			continue
		}
		i := slices.IndexFunc(n.Pods, func(p Pod) bool { return p.UID == a.UID && p.Name == a.Pod })
		if i < 0 {
			return fmt.Errorf("action %+v: node %s has no such pod", a, n.Name)
		}
		if err := w.change(n, i, a); err != nil {
			return fmt.Errorf("action %+v: %w", a, err)
		}
	}
	w.s.Memory = p.Memory
	return w.announce(p.Announcements)
}

// change carries out an action on pod i of a node.
func (w *world) change(n *Node, i int, a Action) error {
	p := &n.Pods[i]
	switch {
	case p.Deleting:
		return fmt.Errorf("the pod is being deleted already")
	case a.Kind == Delete:
		return w.delete(n, i, a)
	case a.Kind == Prepare && p.Hook == HookArmed:
		p.Hook, p.Evicted = HookWaiting, a.Evict
	case a.Kind == Restore && p.Hook == HookWaiting:
		p.Hook = HookArmed
	case a.Kind == Restore && p.Hook == HookReleased:
		p.Hook = HookNone
	case a.Kind == Mark && p.InPlace == InPlaceNone && p.Gate:
		p.InPlace = InPlaceMarked
		if w.s.Set.Grace > 0 {
			p.GraceUntil = w.s.Now.Add(w.s.Set.Grace)
		}
	case a.Kind == Patch && p.InPlace != InPlaceNone:
		p.InPlace, p.Revision, p.GraceUntil, n.Last = InPlacePatched, a.Revision, 0, a.Revision
		p.Stuck = NoDetail
	case a.Kind == Resume && p.InPlace == InPlaceAnnounced:
		p.InPlace, p.GraceUntil = InPlacePatched, 0
	case a.Kind == Unmark && (p.InPlace == InPlaceMarked || p.InPlace == InPlaceArrived):
		p.InPlace, p.GraceUntil = InPlaceNone, 0
	default:
		return fmt.Errorf("that cannot be done to a pod whose hook is %s and whose change in place is %s", p.Hook, p.InPlace)
	}
	return nil
}

func (w *world) delete(n *Node, i int, a Action) error {
	p := &n.Pods[i]
	if !n.Gone && (p.Hook == HookArmed || p.Hook == HookWaiting) {
		return fmt.Errorf("its hook is %s", p.Hook)
	}
	if a.Reason == Recreating {
		n.Last = w.s.Set.Update // as the fleet remembers it
	}
	if p.Scheduled {
		p.Deleting, p.DeletedAt = true, w.s.Now
	} else {
		n.Pods = slices.Delete(n.Pods, i, i+1)
	}
	return nil
}

func (w *world) create(n *Node, revision int) {
	w.named++
	name := fmt.Sprintf("%s+%d", n.Name, w.named)
	pod := Pod{Name: name, UID: "uid-" + name, Revision: revision, Created: w.s.Now, Gate: w.s.Set.InPlace}
	if w.hooked {
		pod.Hook = HookArmed
	}
	n.Pods, n.Last = append(n.Pods, pod), revision
}

// tick lets everybody else do one thing and says whether anything changed.
func (w *world) tick() bool {
	changed := false
	for i := range w.s.Nodes {
		n := &w.s.Nodes[i]
		if n.ImageWait && n.ImageUntil == 0 { // the images are pulled now, and never arrive
			n.ImageUntil, changed = w.s.Now.Add(3*time.Second), true
		}
		w.suffer(n)
		if slices.Contains(w.stuck, n.Name) && !n.Gone {
			continue
		}
		kept := n.Pods[:0]
		for _, p := range n.Pods {
			switch {
			case p.Deleting && w.s.Now.Sub(p.DeletedAt) < w.linger:
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
	w.s.Nodes = slices.DeleteFunc(w.s.Nodes, func(n Node) bool { return n.Gone && len(n.Pods) == 0 })
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
			p.InPlace = InPlaceArrived
		}
	case !p.Ready:
		p.Phase, p.Ready, p.ReadySince = Running, true, w.s.Now
	}
	return *p != before
}

// step decides, applies and lets time pass: a second, or until the plan wants to be asked again when nothing else happens.
// done is whether nothing will ever happen again.
func (w *world) step() (plan Plan, done bool, err error) {
	plan = Decide(w.s)
	if err := w.apply(plan); err != nil {
		return plan, true, err
	}
	kept, err := w.keep()
	if err != nil {
		return plan, true, fmt.Errorf("the other controller: %w", err)
	}
	next := w.s.Now.Add(time.Second)
	changed := w.tick()
	if !changed && len(plan.Actions)+len(plan.Announcements)+len(kept.Actions) == 0 {
		wake := plan.Wake
		if wake == 0 || kept.Wake != 0 && kept.Wake < wake {
			wake = kept.Wake
		}
		if wake == 0 {
			return plan, true, nil
		}
		next = max(wake, w.s.Now.Add(1))
	}
	w.s.Now = next
	return plan, false, nil
}

// copy returns a world that shares nothing with w that either of them changes.
func (w *world) copy() *world {
	c := *w
	c.s = copySnapshot(w.s)
	return &c
}

func copySnapshot(s Snapshot) Snapshot {
	s.Nodes = slices.Clone(s.Nodes)
	for i := range s.Nodes {
		s.Nodes[i].Pods = slices.Clone(s.Nodes[i].Pods)
	}
	s.Memory.Backoffs = slices.Clone(s.Memory.Backoffs)
	return s
}
