// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// Group is the concurrency group of a policy. Two sets of one group are never updated at the same place at the same time.
type Group struct {
	Name  string
	Scope Scope
}

// Scope is how wide a place is, from the narrowest.
type Scope uint8

// The scopes.
const (
	ScopeNode Scope = iota
	ScopeZone
	ScopeCluster
)

// group reads a concurrency group; nil for none.
func group(from *v1alpha1.ConcurrencyGroup) *Group {
	if from == nil {
		return nil
	}
	g := &Group{Name: from.Name, Scope: ScopeCluster}
	switch from.Scope {
	case v1alpha1.ScopeNode:
		g.Scope = ScopeNode
	case v1alpha1.ScopeZone:
		g.Scope = ScopeZone
	}
	return g
}

// Widest returns the group with that name and the widest scope, which applies to all its sets: policies may name different scopes.
func Widest(name string, policies []*Policy) Group {
	g := Group{Name: name}
	for _, p := range policies {
		if p.Group != nil && p.Group.Name == name {
			g.Scope = max(g.Scope, p.Group.Scope)
		}
	}
	return g
}

// Members returns those of some policies whose sets belong to a group.
func Members(name string, policies []*Policy) []*Policy {
	return slices.DeleteFunc(slices.Clone(policies), func(p *Policy) bool { return p.Group == nil || p.Group.Name != name })
}

// place is the place of a node, for exclusion: it is the same for all nodes that count as one.
func (s Scope) place(node, zone string) string {
	switch s {
	case ScopeNode:
		return node
	case ScopeZone:
		return zone
	default:
		return ""
	}
}

// labelZone is the label of nodes with their zone.
const labelZone = "topology.kubernetes.io/zone"

// zoneOf is the zone of a node with these labels.
func zoneOf(labels map[string]string) string { return labels[labelZone] }

// Nodes are names of nodes with their zones.
type Nodes map[string]string

// Neighbour is another set of a group.
type Neighbour struct {
	Set Set
	// Known reports whether anything is known of it. Until then no update starts next to it.
	Known bool
	// UnderWay are its nodes in the middle of an update, or about to be.
	UnderWay Nodes
	// Down are the nodes among them that have no available pod and wait for their update, which may make one available.
	Down Nodes
	// First has one node of each place in which the neighbour waits for its turn and precedes the set that the decision is about.
	First Nodes
}

// Neighbours are what the decision about one set must know of its group.
type Neighbours struct {
	Group
	// Others are the other sets, in the order of their names.
	Others []Neighbour
	// Unread reports whether the Advanced DaemonSets have not been read yet. No update starts then, because the group may have some.
	Unread bool
	// Fresh reports whether nothing is known of this set yet.
	Fresh bool
	// Own are the nodes of this set that were in the middle of their update, or about to be, after the last decision.
	Own Nodes
}

// holder is the reason why no update of another set starts at a place.
type holder struct {
	set  string
	node string
	why  holding
	// waits reports whether the set itself waits there for an update, and has no available pod.
	waits bool
}

// holding is how a set holds a place.
type holding uint8

const (
	isUpdating holding = iota
	goesFirst
	isUnknown
	isUnread
)

// holders returns for each place which set holds it; all is not nil if no update may start at any place. zone is the
// current zone of a node, if it is known: the label may have changed since the other set has decided.
func (n *Neighbours) holders(zone func(node string) (string, bool)) (at map[string]holder, all *holder) {
	if n.Unread {
		return nil, &holder{why: isUnread}
	}
	at = map[string]holder{}
	own := map[string]bool{}
	for node, zone := range n.Own {
		own[n.Scope.place(node, zone)] = true
	}
	for i := range n.Others {
		o := &n.Others[i]
		if !o.Known {
			return nil, &holder{set: o.Set.Title(), why: isUnknown}
		}
		for _, node := range slices.Sorted(maps.Keys(o.UnderWay)) {
			zones := []string{o.UnderWay[node]}
			if now, known := zone(node); known && now != zones[0] {
				zones = append(zones, now)
			}
			for _, z := range zones {
				place := n.Scope.place(node, z)
				_, waits := o.Down[node]
				if by, held := at[place]; !held || by.why != isUpdating || by.waits && !waits {
					at[place] = holder{o.Set.Title(), node, isUpdating, waits}
				}
			}
		}
		for _, node := range slices.Sorted(maps.Keys(o.First)) {
			place := n.Scope.place(node, o.First[node])
			if _, held := at[place]; !held && !own[place] {
				at[place] = holder{set: o.Set.Title(), node: node, why: goesFirst}
			}
		}
	}
	return at, nil
}

// zone is the zone of a node of the Snapshot, the nodes of which are in the order of their names.
func (in *Input) zone(node string) (string, bool) {
	i, found := slices.BinarySearchFunc(in.Snapshot.Nodes, node, func(n rollout.Node, name string) int { return cmp.Compare(n.Name, name) })
	if !found || i >= len(in.Labels) || in.Snapshot.Nodes[i].Gone {
		return "", false
	}
	return zoneOf(in.Labels[i]), true
}

// Why returns why a node with these labels waits for another set; empty if it does not.
func (n *Neighbours) Why(node string, labels map[string]string) string {
	at, all := n.holders(func(other string) (string, bool) { return zoneOf(labels), other == node })
	by, held := at[n.Scope.place(node, zoneOf(labels))]
	switch {
	case all != nil:
		return all.sentence(n.Name, "The node waits")
	case held:
		return by.sentence(n.Name, "The node waits")
	default:
		return ""
	}
}

// together holds back the nodes at whose place another set of the group is being updated, or goes first. A
// node in the middle of an update is not held: a pod that never became available can be replaced by one of
// the next revision; otherwise two sets could wait for each other.
func (r *run) together() {
	if r.in.Neighbours == nil {
		return
	}
	r.out.UnderWay = r.underWay()
	r.out.Down = r.down()
	at, all := r.in.Neighbours.holders(r.in.zone)
	if all == nil && len(at) == 0 {
		return
	}
	waiting := map[holder]int{}
	for i := range r.holds {
		if r.holds[i] != rollout.NotEvaluated || r.stranded(i) {
			continue
		}
		by, held := at[r.in.Neighbours.Scope.place(r.s.Nodes[i].Name, zoneOf(r.in.Labels[i]))]
		if all != nil {
			by, held = *all, true
		}
		if _, down := r.out.Down[r.s.Nodes[i].Name]; !held || by.waits && down {
			continue
		}
		r.holds[i], r.restricts = rollout.WaitGroup, true
		if r.standing[i].AwaitsUpdate {
			waiting[by]++
		}
	}
	r.waitsFor(waiting)
}

// groupHolds reports whether the group holds all nodes of a wave that await their update.
func (r *run) groupHolds(wave string) bool {
	k := slices.IndexFunc(r.p.Waves, func(w Wave) bool { return w.Name == wave })
	if k < 0 || r.places == nil || !blocks(r.out.Status, HeldByGroup) {
		return false
	}
	waits := false
	for i := range r.s.Nodes {
		if r.places[i] == place(k) && r.standing[i].AwaitsUpdate {
			if r.isReleased(i) {
				return false
			}
			waits = waits || r.holds[i] == rollout.WaitGroup
		}
	}
	return waits
}

// maxHolders is how many of those who hold places are named.
const maxHolders = 3

// HeldByGroup is the reason in a status while another set of the concurrency group holds nodes.
const HeldByGroup = "ConcurrencyGroup"

// waitsFor names who holds the nodes that wait.
func (r *run) waitsFor(waiting map[holder]int) {
	by := slices.SortedFunc(maps.Keys(waiting), func(a, b holder) int {
		return cmp.Or(cmp.Compare(a.why, b.why), -cmp.Compare(waiting[a], waiting[b]), cmp.Compare(a.set, b.set), cmp.Compare(a.node, b.node))
	})
	for _, h := range by[:min(len(by), maxHolders)] {
		number := fmt.Sprintf("%d nodes wait", waiting[h])
		if waiting[h] == 1 {
			number = "1 node waits"
		}
		r.block(HeldByGroup, h.sentence(r.in.Neighbours.Name, number))
	}
}

// sentence returns why nodes wait; waiting is the begin of the sentence.
func (h *holder) sentence(group, waiting string) string {
	if h.why == isUnread {
		return fmt.Sprintf("%s: the Advanced DaemonSets of the concurrency group %s have not been read yet.", waiting, group)
	}
	text := fmt.Sprintf("%s for the %s of the concurrency group %s: ", waiting, h.set, group)
	switch h.why {
	case isUpdating:
		return text + "its update on node " + h.node + " has not ended."
	case goesFirst:
		return text + "it goes first."
	default:
		return text + "this manager has not decided about it since it started, so it may be in the middle of an update."
	}
}

// underWay returns the nodes of the set in the middle of their update, also of one to a revision that the template no longer describes. In a set without an
// active update, a node counts only if it was in the middle before: a pod that fails later is not an update. When nothing is known of the set yet, because the
// manager has just started, a pod that does not serve counts if it is so young that an update may have made it, and so does a node that lacks its pod, until it
// has one: an update may have taken it. The waves go on without a node that was broken before its update, but an update that has begun there has not ended: it holds the place again when the node is ready again.
func (r *run) underWay() Nodes {
	r.out.active = r.returning || !r.atRest()
	nodes := Nodes{}
	for i := range r.standing {
		n := &r.s.Nodes[i]
		name, begun := n.Name, r.standing[i].UnderWay || r.unanswered(i)
		_, before := r.in.Neighbours.Own[name]
		before = before || r.in.Neighbours.Fresh && r.young(i)
		back := begun && len(n.Pods) > 0 && r.young(i) // it may have been left out because it was down
		if r.isLeftOut(i) && (!before && !back || r.left[i] == downForLong) {
			continue
		}
		if before && (begun || r.broken(i, true) || r.out.active && r.bare(i)) || r.out.active && begun || r.stranded(i) {
			nodes[name] = zoneOf(r.in.Labels[i])
		}
	}
	return nodes
}

// unanswered reports whether a write for a node with pods has no answer yet that may begin an update: a create next to an old pod, or an edit that takes one out of
// use. It may take effect later.
func (r *run) unanswered(i int) bool {
	n := &r.s.Nodes[i]
	return !n.Gone && len(n.Pods) > 0 && (n.Unanswered || slices.ContainsFunc(n.Pods, func(p rollout.Pod) bool { return p.Doubtful }))
}

// youngPod is the maximum age of a pod that an update just before the start of this manager may have created.
const youngPod = 10 * time.Minute

// stranded reports whether a node has a pod of an update that is active, or of an earlier one that has not ended, and none that is available.
func (r *run) stranded(i int) bool { return r.out.active && r.broken(i, false) }

// down returns the nodes that count as being in the middle of an update, because their pod is not available or is missing, and wait for their next one, which has not begun. A set
// may start there while others are in the same state: no available pod is lost, and otherwise each set could wait for the other.
func (r *run) down() Nodes {
	nodes := Nodes{}
	for i := range r.standing {
		name := r.s.Nodes[i].Name
		if zone, own := r.out.UnderWay[name]; own && r.standing[i].AwaitsUpdate && (r.broken(i, true) && !r.unanswered(i) || r.bare(i) && !r.s.Nodes[i].Unanswered) {
			nodes[name] = zone
		}
	}
	return nodes
}

// bare reports whether a node lacks a pod that it should have.
func (r *run) bare(i int) bool {
	n := &r.s.Nodes[i]
	return !n.Gone && n.Fit == rollout.MustRun && len(n.Pods) == 0
}

// Unfinished returns those of the nodes in the middle of an update on which it has not ended, for a set that no policy governs any more: the only pod of a node must be available.
func (nodes Nodes) Unfinished(s *rollout.Snapshot) Nodes {
	still, serving := Nodes{}, s.Serving()
	for i := range s.Nodes {
		n := &s.Nodes[i]
		zone, is := nodes[n.Name]
		runs := n.Fit == rollout.MustRun || n.Fit == rollout.MayStay && len(n.Pods) > 0
		if is && !n.Gone && runs && (len(n.Pods) != 1 || !serving(i)) {
			still[n.Name] = zone
		}
	}
	return still
}

// young reports whether all live pods of a node are young.
func (r *run) young(i int) bool {
	return !slices.ContainsFunc(r.s.Nodes[i].Pods, func(p rollout.Pod) bool { return !p.Deleting && p.Created.Add(youngPod) < r.s.Now })
}

// broken reports whether a node has live pods, but none that is available. Unless whichever is set, only pods of revisions other than the committed one count.
func (r *run) broken(i int, whichever bool) bool {
	n := &r.s.Nodes[i]
	if n.Gone || n.Fit != rollout.MustRun && n.Fit != rollout.MayStay {
		return false
	}
	for k := range n.Pods {
		if p := &n.Pods[k]; !p.Deleting && (whichever || p.Revision != r.committed) {
			return !r.serves(i)
		}
	}
	return false
}

// Begin adds the nodes on which a plan begins an update to those in the middle of one. It is called before anything of the plan is carried out.
func (r *Result) Begin(in *Input, p *rollout.Plan) {
	for i := range p.Actions {
		if a := &p.Actions[i]; r.begins(a) {
			name := in.Snapshot.Nodes[a.Node].Name
			r.UnderWay[name] = zoneOf(in.Labels[a.Node])
			delete(r.Down, name)
		}
	}
}

// begins reports whether an action begins an update. While one is active, a pod that failed is replaced by one of the new revision.
func (r *Result) begins(a *rollout.Action) bool {
	switch a.Reason {
	case rollout.ReplacingFailed, rollout.ReplacingEnded:
		return r.active
	default:
		return startsUpdate(*a)
	}
}

// Waits returns one node of each place where only the group prevents an update of the set, and whether there
// are any. While nothing is known about another set of the group, no places are returned.
func (in *Input) Waits(p *rollout.Plan) (nodes Nodes, held bool) {
	_, all := in.Neighbours.holders(in.zone)
	seen := map[string]bool{}
	for i := range p.Verdicts {
		if p.Verdicts[i].Kind != rollout.WaitGroup {
			continue
		}
		if held = true; all != nil {
			break
		}
		name, zone := in.Snapshot.Nodes[i].Name, zoneOf(in.Labels[i])
		if place := in.Neighbours.Scope.place(name, zone); !seen[place] {
			seen[place] = true
			if nodes == nil {
				nodes = Nodes{}
			}
			nodes[name] = zone
		}
	}
	return nodes, held
}
