// SPDX-License-Identifier: Apache-2.0

package rollout

// Gate describes how far a rollout policy allows the update of a set. It only restricts: the limits and the budget of the set apply in addition.
type Gate struct {
	// Holds contains for each node of the Snapshot the reason why its update may not start now; NotEvaluated for a node that is released. A node beyond its end is
	// released.
	Holds []VerdictKind
	// Joining is the index of the revision that a held node gets when it has no pod, and nothing is known of an earlier one; NoRevision for the wanted one.
	Joining int
	// Unfit contains for each node of the Snapshot whether pods of the wanted revision may run there and no others, or, if it has the Fit MayStay, others and none of that: while it is held, it
	// uses up no budget, and gets no first pod. A node beyond its end is none of these.
	Unfit []bool
	// InFlight is the number of nodes in the middle of their update below which another update may start; negative for no limit.
	InFlight int
	// Absent contains for each node of the Snapshot whether InFlight does not count it. A node beyond its end counts.
	Absent []bool
	// Starts is how many updates this plan may start; negative for no limit.
	Starts int
	// Creates reports whether the creation of a pod that has vanished counts as the start of an update, and gets the last revision of the node beyond InFlight and Starts.
	// The gate of an old pod that its node runs is opened then before its update starts: such a create may have left it closed.
	Creates bool
	// NewestFirst starts updates on the nodes with the youngest pods first, instead of in the order of the set.
	NewestFirst bool
}

// Halts reports whether a node is held because the wanted revision has failed or was rejected.
func (g *Gate) Halts(i int) bool {
	return g != nil && i < len(g.Holds) && (g.Holds[i] == WaitFailed || g.Holds[i] == WaitRejected)
}

// gateOf returns why the policy holds a node, or notHeld.
func (d *decision) gateOf(i int) VerdictKind {
	if g := d.in.Gate; g != nil && i < len(g.Holds) {
		return g.Holds[i]
	}
	return notHeld
}

// gated reports whether a policy can hold nodes back: it says when updates start, and which pods announce that there is a newer revision. With OnDelete
// alone, users start every update.
func (d *decision) gated() bool {
	return d.in.Gate != nil && (d.in.Set.Strategy == RollingUpdate || d.in.Set.Announce)
}

// holdByPolicy holds the nodes that the policy has not released, and that the limits of the set do not hold,
// or hold only because of the partition. Updates that have begun continue.
func (d *decision) holdByPolicy() {
	for i := range d.in.Nodes {
		gate := d.gateOf(i)
		if gate != notHeld && (d.holds[i] == notHeld || d.holds[i] == WaitPartition) && d.awaitsUpdate(&d.in.Nodes[i]) {
			d.holds[i] = gate
		}
	}
}

// awaitsUpdate reports whether a node has an old pod, or none, and its update has not begun.
func (d *decision) awaitsUpdate(n *Node) bool {
	if !d.updates(n) {
		return false
	}
	begun, old := d.progressOf(n)
	return d.awaits(n, begun, old)
}

// awaits is awaitsUpdate of a node that the set updates, and of which progressOf is known.
func (d *decision) awaits(n *Node, begun, old bool) bool {
	switch {
	case begun:
		return false
	case old:
		return true
	default:
		return n.Fit == MustRun && !d.in.Set.ExternalController && n.Last != d.in.Set.Update
	}
}

// heldByPolicy reports whether the policy holds a node back, and nothing else does.
func (d *decision) heldByPolicy(i int) bool {
	gate := d.gateOf(i)
	return gate != notHeld && d.hold(i) == gate
}

// absent reports whether a node does not count in the pace of the policy.
func (d *decision) absent(i int) bool {
	g := d.in.Gate
	return g != nil && i < len(g.Absent) && g.Absent[i]
}

// unfit reports whether a node waits for the policy without a pod, because the one that it would get before could not run there, or with one that it only keeps until then, also if a user has deleted that.
func (d *decision) unfit(t *nodeContext) bool {
	g := d.in.Gate
	if g == nil || t.index >= len(g.Unfit) || !g.Unfit[t.index] {
		return false
	}
	if t.node.Fit == MayStay {
		return t.hold != notHeld || t.seen == t.terminating && d.gateOf(t.index) != notHeld
	}
	return t.hold != notHeld && t.seen == 0 && d.successor(t) != d.in.Set.Update
}

// paced reports whether the policy lets no further update start in this plan, on a node that is in flight already or not.
func (d *decision) paced(inFlight bool) bool {
	g := d.in.Gate
	if g == nil {
		return false
	}
	return !inFlight && g.InFlight >= 0 && d.usage.paced+d.usage.taken >= g.InFlight || g.Starts >= 0 && d.usage.starts >= g.Starts
}

// Progress describes the progress of a node in the update of its set.
type Progress struct {
	// Updated reports whether it has a live pod of the wanted revision, and no older one next to it; Available whether that pod is available.
	Updated, Available bool
	// AwaitsUpdate reports whether it has an old pod, or none, and its update has not begun.
	AwaitsUpdate bool
	// InFlight reports whether it is in the middle of an update: without a live pod, or with one of the wanted revision that is not available.
	InFlight bool
	// UnderWay reports whether its update has begun and has not ended: it has no live pod, or a pod that is being prepared or changed for the update, or one of
	// the wanted revision that is not available or has an older one next to it. A node that has never had a pod is not: nothing was taken from it.
	UnderWay bool
}

// Progress returns a function that reports the progress of a node of the Snapshot.
func (s *Snapshot) Progress() func(i int) Progress {
	d := begin(s)
	return func(i int) Progress {
		n := &s.Nodes[i]
		current, old, serving, changing := 0, 0, false, false
		for k := range n.Pods {
			p := &n.Pods[k]
			switch {
			case p.Deleting:
			case p.Revision == s.Set.Update && !p.Phase.Terminal():
				current++
				serving = serving || d.serving(p)
				changing = changing || p.InPlace != InPlaceNone
			default:
				old++
			}
		}
		updated := current > 0 && old == 0
		p := Progress{
			Updated: updated, Available: updated && serving && !changing,
			InFlight: current+old == 0 || current > 0 && !serving,
		}
		if d.updates(n) {
			begun, old := d.progressOf(n)
			p.AwaitsUpdate = d.awaits(n, begun, old)
			p.UnderWay = begun && !p.Available || p.InFlight && !begun && (len(n.Pods) > 0 || n.Fit == MustRun && n.Last != NoRevision)
		}
		return p
	}
}

// Serving returns a function that reports whether a node has a live pod, of any revision, that is available and is not being changed.
func (s *Snapshot) Serving() func(i int) bool {
	d := begin(s)
	return func(i int) bool {
		for k := range s.Nodes[i].Pods {
			if p := &s.Nodes[i].Pods[k]; !p.Deleting && p.InPlace == InPlaceNone && d.serving(p) {
				return true
			}
		}
		return false
	}
}

// Charged returns a function that reports whether a node uses up the budget of the set (Verdict.Charged), if no Gate holds any.
func (s *Snapshot) Charged() func(i int) bool {
	charges := s.charges()
	return func(i int) bool {
		charged, _ := charges(i)
		return charged
	}
}

// Paced returns a function that reports whether a node counts in Gate.InFlight, if no Gate leaves it out.
func (s *Snapshot) Paced() func(i int) bool {
	charges := s.charges()
	return func(i int) bool {
		_, paced := charges(i)
		return paced
	}
}

// charges returns a function for both.
func (s *Snapshot) charges() func(i int) (charged, paced bool) {
	d := begin(s)
	d.holdNodes()
	return func(i int) (charged, paced bool) {
		n := &s.Nodes[i]
		if len(n.Pods) == 1 && !n.Unanswered && (n.Ready || !s.Set.Unreachable.Skip) { // most nodes
			if p := &n.Pods[0]; !p.ignored() && !p.Deleting && !p.Phase.Terminal() && p.Hook == HookNone && p.InPlace == InPlaceNone && d.serving(p) {
				return false, false
			}
		}
		t := nodeContext{index: i, node: n, pods: d.byAge(n.Pods), hold: d.hold(i)}
		d.countPods(&t)
		if !t.node.Ready && s.Set.Unreachable.Skip {
			d.attributeDown(&t)
		}
		before := d.usage.paced
		charged = d.charge(&t)
		return charged, d.usage.paced > before
	}
}

// Held returns a function that reports whether a limit of the set, or the Gate, keeps the update of a node from starting.
func (s *Snapshot) Held() func(i int) bool {
	d := begin(s)
	d.holdNodes()
	return func(i int) bool { return d.hold(i) != notHeld }
}

// updates reports whether the set has the pods of a node updated.
func (d *decision) updates(n *Node) bool {
	return !n.Gone && (n.Fit == MustRun || n.Fit == MayStay)
}
