// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
)

// World is an imaginary cluster around one set: it carries plans out as the API server would, and the other controller of an external set does
// its part in it. Nothing else is active there: the user of a World plays scheduler, kubelets, handlers of hooks and garbage collector by
// changing its State. So a plan that is shown to a person, and the tests of Decide, mean the same by every action.
type World struct {
	State Snapshot
	// Hooked reports whether new pods have an armed preDelete hook.
	Hooked bool
	// named counts the pods that the world has made.
	named int
	// keeper is what the other controller of an external set remembers.
	keeper Memory
}

// NewWorld returns a world that begins as s and shares nothing with it that either of them changes.
func NewWorld(s Snapshot) World { return World{State: s.Copy()} }

// Copy returns a world that shares nothing with w that either of them changes.
func (w *World) Copy() World {
	c := *w
	c.State = w.State.Copy()
	return c
}

// Copy returns a Snapshot whose nodes, pods and back-offs are its own.
func (s Snapshot) Copy() Snapshot {
	s.Nodes = slices.Clone(s.Nodes)
	for i := range s.Nodes {
		s.Nodes[i].Pods = slices.Clone(s.Nodes[i].Pods)
	}
	s.Memory.Backoffs = slices.Clone(s.Memory.Backoffs)
	return s
}

// Apply carries out what a plan holds. An action that makes no sense in this world is an error of the caller that made the plan.
func (w *World) Apply(p Plan) error {
	for _, a := range p.Actions {
		if a.Node < 0 || a.Node >= len(w.State.Nodes) {
			return fmt.Errorf("action %+v names no node", a)
		}
		n := &w.State.Nodes[a.Node]
		n.Refusal = nil // nothing is refused here
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
	w.State.Memory = p.Memory
	return w.announce(p.Announcements)
}

// change carries out an action on pod i of a node.
func (w *World) change(n *Node, i int, a Action) error {
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
		if w.State.Set.Grace > 0 {
			p.GraceUntil = w.State.Now.Add(w.State.Set.Grace)
		}
	case a.Kind == Patch && (p.InPlace != InPlaceNone || !w.State.Set.ClosesGate()):
		p.Open = (p.Open || p.InPlace == InPlaceNone) && !w.State.Set.ClosesGate()
		p.InPlace, p.Revision, p.GraceUntil, n.Last = InPlacePatched, a.Revision, 0, a.Revision
		p.Stuck, p.StuckAt = NoDetail, 0
	case a.Kind == Resume && p.InPlace == InPlaceAnnounced:
		p.InPlace, p.GraceUntil = InPlacePatched, 0
	case a.Kind == Unmark && (p.InPlace == InPlaceMarked || p.InPlace == InPlaceArrived):
		p.InPlace, p.GraceUntil, p.Interrupted = InPlaceNone, 0, false
	default:
		return fmt.Errorf("that cannot be done to a pod whose hook is %s and whose change in place is %s", p.Hook, p.InPlace)
	}
	return nil
}

// Arrive lets the node run what the pod has been changed to in place.
func (p *Pod) Arrive() {
	p.InPlace = InPlaceArrived
	if p.Open {
		p.InPlace, p.Open = InPlaceNone, false
	}
}

func (w *World) delete(n *Node, i int, a Action) error {
	p := &n.Pods[i]
	if !n.Gone && (p.Hook == HookArmed || p.Hook == HookWaiting) {
		return fmt.Errorf("its hook is %s", p.Hook)
	}
	if a.Reason == Recreating {
		n.Last = w.State.Set.Update // as the cache remembers it
	}
	if p.Scheduled {
		p.Deleting, p.DeletedAt = true, w.State.Now
	} else {
		n.Pods = slices.Delete(n.Pods, i, i+1)
	}
	return nil
}

func (w *World) create(n *Node, revision int) {
	w.named++
	name := fmt.Sprintf("%s+%d", n.Name, w.named)
	pod := Pod{Name: name, UID: "uid-" + name, Revision: revision, Created: w.State.Now, Gate: w.State.Set.InPlace && w.State.Set.ClosesGate()}
	if w.Hooked {
		pod.Hook = HookArmed
	}
	n.Pods, n.Last = append(n.Pods, pod), revision
}

// announce lets pods say what they are to say.
func (w *World) announce(announcements []Announcement) error {
	for _, a := range announcements {
		pods := w.State.Nodes[a.Node].Pods
		i := slices.IndexFunc(pods, func(p Pod) bool { return p.UID == a.UID && p.Name == a.Pod })
		if i < 0 {
			return fmt.Errorf("announcement %+v: there is no such pod", a)
		}
		pods[i].Announced = Announced{}
		if !a.Withdraw {
			pods[i].Announced = Announced{Said: true, Old: a.Old, Revision: int32(w.State.Set.Update)}
		}
	}
	return nil
}

// Keep lets the other controller do its part for an external set: everything but the update. It says what it does, and when it wants to look
// again.
func (w *World) Keep() (Plan, error) {
	if !w.State.Set.ExternalController {
		return Plan{}, nil
	}
	s := w.State
	s.Memory = w.keeper
	s.Set = Set{Update: s.Set.Update, Strategy: OnDelete, MinReady: s.Set.MinReady}
	p := Decide(s)
	w.keeper = p.Memory
	p.Memory, p.Announcements = w.State.Memory, nil // it knows nothing of them
	return p, w.Apply(p)
}
