// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"math"
	"slices"
)

// DecideEnding is Decide for a manager that is being stopped while no other takes over. Nothing new begins: no update, no repair of a pod that has ended, no
// removal of a pod. What is under way ends, in the way that takes the least time and leaves each pod in service:
//
//	a pod whose gate is closed, not changed yet    Unmark: the change is called off
//	a pod that has been changed                    Unmark, when its node runs the change
//	a change that another controller has announced Resume
//	a pod that waits for its preDelete hook        Restore, where OnDelete would restore it: it runs, its node may run it, and no other pod has its place
//	one that its hook has released, not wanted     Delete
//	a missing pod                                  Create
//
// The first half is what OnDelete does with changes that are under way, the last one what Decide does while a policy lets no update start.
func DecideEnding(s Snapshot) Plan {
	undo := s
	undo.Set.Strategy, undo.Set.Burst, undo.Gate = OnDelete, Quantity{Value: math.MaxInt32}, nil
	back := Decide(undo)
	plan := Decide(withoutStarts(s))
	ends := make([]bool, len(s.Nodes)) // whether a change that is under way is ended there
	actions := slices.DeleteFunc(back.Actions, func(a Action) bool { return !s.endsWith(&a) })
	for i := range actions {
		ends[actions[i].Node] = true
	}
	for _, a := range plan.Actions {
		if a.Kind == Create && !ends[a.Node] {
			actions = append(actions, a)
		}
	}
	plan.Wake = Earlier(plan.Wake, back.Wake)
	if burst := s.burst(); len(actions) > burst {
		actions, plan.Wake = actions[:burst:burst], notNever(s.Now)
	}
	for i := range plan.Verdicts {
		v := &plan.Verdicts[i]
		paced := v.Kind.OfPolicy() && v.Kind.Cause() == CauseTurn // that of withoutStarts
		if v.Kind.Acts() || v.Kind == WaitBurst || paced {
			v.Kind, v.Detail = WaitManager, NoDetail
		}
	}
	for _, a := range slices.Backward(actions) {
		plan.Verdicts[a.Node].Kind, plan.Verdicts[a.Node].Detail = a.Reason, a.Detail
	}
	plan.Actions, plan.Notes, plan.Memory, plan.Announcements = actions, notes(actions), s.Memory, nil
	return plan
}

// withoutStarts returns the Snapshot with a policy that lets no update start, and otherwise restricts what the policy of the set restricts.
func withoutStarts(s Snapshot) Snapshot {
	gate := Gate{Joining: NoRevision, InFlight: -1}
	if s.Gate != nil {
		gate = *s.Gate
	}
	gate.Starts = 0
	s.Gate = &gate
	s.Set.Burst = Quantity{Value: math.MaxInt32}
	return s
}

// endsWith reports whether an action ends what is under way, and takes no pod out of service.
func (s *Snapshot) endsWith(a *Action) bool {
	switch a.Kind {
	case Unmark, Restore, Resume:
		return true
	case Delete:
		return slices.ContainsFunc(s.Nodes[a.Node].Pods, func(p Pod) bool { return p.UID == a.UID && p.Hook == HookReleased })
	default:
		return false
	}
}

// Unfinished returns the nodes on which something is under way that a manager ends, and that can still end without a person: the plan, of DecideEnding, has an
// action there, a pod that can be ready again has a closed gate, or a pod terminates that is to get a successor.
func (s *Snapshot) Unfinished(p *Plan) []int {
	var nodes []int
	d := begin(s)
	acts := map[int]bool{}
	for i := range p.Actions {
		acts[p.Actions[i].Node] = true
	}
	for i := range s.Nodes {
		if acts[i] || d.changes(&s.Nodes[i]) || p.Verdicts[i].Kind == WaitTerminating && d.awaitsSuccessor(&s.Nodes[i]) {
			nodes = append(nodes, i)
		}
	}
	return nodes
}

// changes reports whether a pod of a node is being changed in place with its gate closed, and the node may run the change.
func (d *decision) changes(n *Node) bool {
	if !n.Ready || d.in.Set.ExternalController || n.Fit != MustRun && n.Fit != MayStay {
		return false
	}
	t := nodeContext{node: n}
	return slices.ContainsFunc(n.Pods, func(p Pod) bool {
		return !p.Deleting && !p.Phase.Terminal() && (p.InPlace != InPlaceNone && !p.Open && !d.stuck(&t, &p) || p.Doubtful)
	})
}

// awaitsSuccessor reports whether a pod is to be created on a node when the ones there are gone.
func (d *decision) awaitsSuccessor(n *Node) bool {
	return n.Ready && n.Fit == MustRun && n.Blocked == "" && !d.in.Set.ExternalController
}
