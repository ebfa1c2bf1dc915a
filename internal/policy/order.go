// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strings"

	"everynode.dev/everynode/internal/rollout"
)

// steps holds back the nodes of the active wave that come in a later step of its growth, or in a later zone. The nodes come in the order in which the set updates them. A step or a zone
// has passed when each of its nodes is available or left out, and one of them shows that the revision works.
func (r *run) steps(k int) {
	w := &r.p.Waves[k]
	if w.Start == nil && r.p.TopologyKey == "" {
		return
	}
	nodes, others, begun := r.inOrder(k)
	more := len(nodes)
	if w.Start != nil {
		f := front{nodes: nodes, look: r.look}
		gone := int(r.gone[k])
		end, shows := f.grown(w, begun, gone, int(r.goesOn(k).step))
		if !shows {
			r.halt.step = int32(end + gone)
		}
		if end == 0 && len(nodes) > 0 {
			r.stallBefore(k, NodesGone, r.desertedText(k))
			return
		}
		if !shows {
			r.blockStep(k, "of the last growth step")
		}
		more = end - begun
		for _, i := range others {
			if end < len(nodes) {
				r.holds[i] = rollout.WaitWave
			}
		}
	}
	begins := func(i int) bool { // within the step
		if w.Start == nil || r.began[i] == place(k) {
			return true
		}
		more--
		return more >= 0
	}
	if r.p.TopologyKey != "" {
		r.zones(k, append(nodes, others...), begins)
		return
	}
	for _, i := range nodes {
		if !begins(i) {
			r.holds[i] = rollout.WaitWave
		}
	}
}

// zones holds back the nodes of later zones than the first one that has not passed. begins reports whether a node is within the growth step.
func (r *run) zones(k int, nodes []int, begins func(i int) bool) {
	hold := func(i int) {
		switch within := !r.inTurn(i) || begins(i); {
		case r.holds[i] != rollout.NotEvaluated:
		case within:
			r.holds[i] = rollout.WaitOrder
		default:
			r.holds[i] = rollout.WaitWave
		}
	}
	nodes, zones := r.grouped(nodes, r.p.TopologyKey)
	f, last, start, promoted := front{nodes: nodes, look: r.look}, r.lastReached(k, nodes, zones), 0, r.goesOn(k)
	lost := r.lostZone(k, zones, last)
	lostZone, _ := r.domain(k)
	elsewhere := r.busy()
	for at, i := range nodes {
		if at == lost && !promoted.after(r.p.TopologyKey, lostZone) && f.reaches(lost) {
			r.stallLostZone(k)
			return
		}
		if at > 0 && zones[at] != zones[at-1] {
			done := f.reaches(at)
			shows := at <= last || f.shows(start) || promoted.after(r.p.TopologyKey, zones[at-1])
			if done && !shows {
				r.halt.domain = r.p.TopologyKey + "=" + zones[at-1]
				r.blockStep(k, "with the label "+r.halt.domain)
			}
			if !done || !shows {
				zone, again := r.zoneOfStep(k, nodes, zones, at)
				for next, i := range nodes[at:] {
					if !again || zones[at+next] != zone || r.began[i] != place(k) || elsewhere(i) {
						hold(i)
					}
				}
				r.noteDomain(k, nodes[:at], zones)
				return
			}
			start = at
		}
		switch {
		case r.standing[i].AwaitsUpdate && elsewhere(i):
			hold(i)
		case r.inTurn(i) && !begins(i):
			r.holds[i] = rollout.WaitWave
		}
	}
	r.noteDomain(k, nodes, zones)
}

// zoneOfStep returns the first zone from some node on of nodes on which the update has begun and is to begin again, if the nodes before them wait only for the step of growth, which these nodes fill: the zones would wait for
// the step otherwise, and the step for a later zone. No further node gets the revision by that.
func (r *run) zoneOfStep(k int, nodes []int, zones []string, from int) (zone string, is bool) {
	for _, i := range nodes[:from] {
		if r.look(i) == lacking && (r.atWork(i) || r.holds[i] != rollout.WaitWave) {
			return "", false
		}
	}
	for at := from; at < len(nodes); at++ {
		if i := nodes[at]; r.began[i] == place(k) && r.standing[i].AwaitsUpdate {
			return zones[at], true
		}
	}
	return "", false
}

// domain is the last zone that the update of a wave has reached.
func (r *run) domain(k int) (zone string, known bool) {
	return strings.CutPrefix(r.out.Status.Waves[k].Domain, r.p.TopologyKey+"=")
}

// noteDomain notes the last zone that the update of a wave has reached. The nodes are those of the zones whose turn has come.
func (r *run) noteDomain(k int, nodes []int, zones []string) {
	was, known := r.domain(k)
	for at := len(nodes) - 1; at >= 0 && (!known || zones[at] > was); at-- {
		if i := nodes[at]; !r.standing[i].AwaitsUpdate && r.reached(i) {
			r.out.Status.Waves[k].Domain = r.p.TopologyKey + "=" + zones[at]
			return
		}
	}
}

// lostZone returns how many nodes come up to the end of the last zone that the update has reached, if no node is left there that has the revision in its turn: this may be the reason. Otherwise
// it returns the number of all nodes.
func (r *run) lostZone(k int, zones []string, last int) (to int) {
	was, known := r.domain(k)
	if !known || last >= 0 && zones[last] >= was {
		return len(zones)
	}
	for to, _ = slices.BinarySearch(zones, was); to < len(zones) && zones[to] == was; to++ {
	}
	return to
}

// stallLostZone stops a rollout after a zone whose nodes are gone. That the revision works in earlier zones does not show that it did not destroy these: a version may need some time for that, or the kind of
// nodes that this zone has. So a user must also say that a zone was scaled down.
func (r *run) stallLostZone(k int) {
	w := &r.out.Status.Waves[k]
	r.out.Status.Wave, r.halt.domain = w.Name, w.Domain
	r.stall(rollout.WaitPolicy, NodesGone, fmt.Sprintf("The update had begun on nodes of the wave %s with the label %s, and none of these is left. The revision may be the reason, also if it works on nodes with another label: "+
		"wait until they are back, go on without them with a RolloutApproval with the decision Promote, or change the template.", w.Name, w.Domain))
}

// inOrder returns the nodes of a wave that grows, or whose nodes are in zones, and how many of them have begun: a node that joins does not come before these. Others are those of its nodes
// that steps and zones neither count nor wait for.
func (r *run) inOrder(k int) (nodes, others []int, begun int) {
	nodes, later := make([]int, 0, r.waves[k].nodes+r.waves[k].absent), []int(nil)
	for j := range r.s.Nodes {
		i := j
		if r.s.Set.Descending {
			i = len(r.s.Nodes) - 1 - j
		}
		switch {
		case r.places[i] != place(k):
		case !r.inTurn(i):
			others = append(others, i)
		case r.began[i] == place(k) || r.p.Waves[k].Start == nil:
			nodes = append(nodes, i)
		default:
			later = append(later, i)
		}
	}
	return append(nodes, later...), others, len(nodes)
}

// inTurn reports whether steps and zones count a node: not one that only keeps its pod, and not one that is left out and says nothing about the revision, because that has not reached it or because
// it was broken before. So a step takes another node in its place.
func (r *run) inTurn(i int) bool {
	switch r.left[i] {
	case counted:
		return member(r.s, &r.s.Nodes[i])
	case brokenBefore, neverWell:
		return false
	default:
		return member(r.s, &r.s.Nodes[i]) && r.reached(i)
	}
}

// reached reports whether a node has, or is to get, a pod of the revision.
func (r *run) reached(i int) bool {
	n := &r.s.Nodes[i]
	return n.Last == r.s.Set.Update || hasTarget(r.s, n) || r.lostPod(i)
}

// lostPod reports whether a node on which the update has begun went down before it had its new pod: a manager that did not begin the update sees no pod there.
func (r *run) lostPod(i int) bool {
	n := &r.s.Nodes[i]
	return len(r.began) > 0 && r.began[i] != nowhere && !n.Ready && len(n.Pods) == 0
}

// atWork reports whether the update of a node is under way, also if another manager has begun it.
func (r *run) atWork(i int) bool { return r.standing[i].UnderWay || r.lostPod(i) }

// lastReached is the last of some nodes that the revision has reached in its turn: what comes before it has passed. Nodes that joined during the rollout may have got the revision before their turn, unless
// the update has reached their zone. The revision may be much older than the rollout.
func (r *run) lastReached(k int, nodes []int, zones []string) int {
	began := r.start()
	was, known := r.domain(k)
	for at := len(nodes) - 1; at >= 0; at-- {
		i := nodes[at]
		if r.standing[i].AwaitsUpdate && !r.lostPod(i) || !r.reached(i) {
			continue
		}
		if joined := r.s.Nodes[i].Joined; began == 0 || joined <= began || known && zones[at] <= was && r.inTurn(i) {
			return at
		}
	}
	return -1
}

// grouped orders nodes by the value of a label, and returns that too.
func (r *run) grouped(nodes []int, key string) ([]int, []string) {
	type labelled struct {
		group string
		node  int
	}
	all := make([]labelled, len(nodes))
	for at, i := range nodes {
		all[at] = labelled{r.in.Labels[i][key], i}
	}
	compare := func(a, b labelled) int { return strings.Compare(a.group, b.group) }
	if !slices.IsSortedFunc(all, compare) {
		slices.SortStableFunc(all, compare)
	}
	groups := make([]string, len(nodes))
	for at := range all {
		nodes[at], groups[at] = all[at].node, all[at].group
	}
	return nodes, groups
}

// grown is how many nodes of a wave may begin: with a start of 2 and a factor of 2 first 2, then 6, then 14. Nodes that are gone were the first ones. The last step that has begun holds the
// others if it shows nothing, unless a user goes on after that many nodes: of the steps before it, another one could not have begun.
func (f *front) grown(w *Wave, begun, gone, goesOn int) (end int, shows bool) {
	all := len(f.nodes) + gone
	step := max(w.Start.Of(all), 1)
	start, end := 0, step
	for shows = true; end < all && f.reaches(max(end-gone, 0)); end += step {
		later := begun > 0 && gone+begun > end
		if shows = later || end <= goesOn || end > gone && f.shows(max(start-gone, 0)); !shows {
			break
		}
		start, step = end, min(step*w.Factor, all)
	}
	return max(min(end, all)-gone, begun), shows
}

// look returns what a node is for its step and its zone.
func (r *run) look(i int) sight {
	switch {
	case r.standing[i].Available:
		return works
	case !r.inTurn(i):
		return uncounted
	case r.isLeftOut(i):
		return missing
	default:
		return lacking
	}
}

// sight is what a node is for its step and its zone: these wait for one that is lacking, and one that is missing shows nothing.
type sight uint8

const (
	lacking sight = iota
	uncounted
	missing
	works
)

// front is how far some nodes are done, in their order. It looks at each node once, so that a step or a zone for each of 100,000 nodes costs no more than one for all.
type front struct {
	nodes []int
	look  func(i int) sight
	at    int
	// works and missing are the numbers of nodes up to the last one that is that.
	works, missing int
}

// reaches reports whether the first nodes are done.
func (f *front) reaches(end int) bool {
	for ; f.at < end; f.at++ {
		switch f.look(f.nodes[f.at]) {
		case lacking:
			return false
		case missing:
			f.missing = f.at + 1
		case works:
			f.works = f.at + 1
		}
	}
	return true
}

// shows reports whether the nodes from one on that are done show that the revision works. If none of them is missing, they have nothing to show.
func (f *front) shows(start int) bool { return f.works > start || f.missing <= start }

// atWork are zones in which something is being done, or may be: none, one, or several.
type atWork struct {
	zone         string
	any, several bool
}

func (z *atWork) add(zone string) {
	z.several = z.several || z.any && zone != z.zone
	z.zone, z.any = zone, true
}

// elsewhere reports whether something is being done in another zone than this one.
func (z *atWork) elsewhere(zone string) bool { return z.several || z.any && zone != z.zone }

// busy returns a function that reports whether an update is under way in another zone than that of a node that awaits its own, in whichever wave: a node that was left out in its turn may come back
// in a zone whose turn has passed. Nodes that lack only their pod hold other zones, too, but not each other: at the turn of its zone, such a node gets the new revision, and else its last one.
func (r *run) busy() (elsewhere func(i int) bool) {
	key := r.p.TopologyKey
	var all, begun atWork
	for i := range r.s.Nodes {
		if key == "" || !r.atWork(i) || r.isLeftOut(i) {
			continue
		}
		all.add(r.in.Labels[i][key])
		if !r.standing[i].AwaitsUpdate || r.lostPod(i) {
			begun.add(r.in.Labels[i][key])
		}
	}
	return func(i int) bool {
		if r.atWork(i) {
			return begun.elsewhere(r.in.Labels[i][key])
		}
		return all.elsewhere(r.in.Labels[i][key])
	}
}

// holdLate holds the nodes that come back to a zone whose turn has passed, or of which it has none, while another zone is at work, or the active wave may start updates in one. They are those of
// waves that have passed, which were left out, and those of the active wave that it does not count. They do not hold that wave: it may be that they cannot be updated. Of several zones of such
// nodes, one is updated at a time: first those of nodes that are ready and not left out, because it may take long until another one can be updated.
func (r *run) holdLate(active int) {
	key := r.p.TopologyKey
	if key == "" {
		return
	}
	var late []int
	turn, waits := "", false
	for i := range r.s.Nodes {
		if !r.isLate(active, i) || r.holds[i] != rollout.NotEvaluated {
			continue
		}
		zone, able := r.in.Labels[i][key], r.s.Nodes[i].Ready && !r.isLeftOut(i)
		if len(late) == 0 || able && !waits || able == waits && zone < turn {
			turn, waits = zone, able
		}
		late = append(late, i)
	}
	if len(late) == 0 {
		return
	}
	elsewhere, starts := r.busy(), r.starts(active)
	for _, i := range late {
		if zone := r.in.Labels[i][key]; zone != turn || elsewhere(i) || starts.elsewhere(zone) {
			r.holds[i] = rollout.WaitOrder
		}
	}
}

// isLate reports whether a node awaits its update, and the active wave does not wait for it.
func (r *run) isLate(active, i int) bool {
	k := r.places[i]
	return r.standing[i].AwaitsUpdate && k != nowhere && (k < place(active) || k == place(active) && !r.inTurn(i))
}

// starts returns the zones in which a wave may start updates. While nodes without an available pod use up the budget of the set, only such nodes can start: a wave that starts nothing because of
// a node that comes back must not hold that node.
func (r *run) starts(k int) (zones atWork) {
	full := r.full()
	for i := range r.s.Nodes {
		if r.ofWave(k, i) && r.holds[i] == rollout.NotEvaluated && r.standing[i].AwaitsUpdate && !(full && r.serves(i)) {
			zones.add(r.in.Labels[i][r.p.TopologyKey])
		}
	}
	return zones
}

// blockedOrder is the reason in blocking while nodes of other zones keep the active wave from starting an update.
const blockedOrder = "Order"

// blockedByOrder reports the nodes of other zones that lack an available pod of the revision, or any pod, while the active wave does nothing because of them.
func (r *run) blockedByOrder(active int) {
	waits := false
	for i := range r.s.Nodes {
		switch st := &r.standing[i]; {
		case !r.ofWave(active, i):
		case st.UnderWay && !st.AwaitsUpdate, st.AwaitsUpdate && r.holds[i] == rollout.NotEvaluated:
			return
		default:
			waits = waits || st.AwaitsUpdate && r.holds[i] == rollout.WaitOrder
		}
	}
	var names []string
	for i := range r.s.Nodes {
		if n := &r.s.Nodes[i]; waits && r.atWork(i) && !r.isLeftOut(i) {
			name := n.Name
			if why := n.Obstacle(); why != "" {
				name += fmt.Sprintf(" (%s)", Shortened(why, longestMessage))
			}
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		r.block(blockedOrder, fmt.Sprintf("No update starts in the wave %s, because spec.order allows one value of the label %s at a time, and elsewhere %s no available pod of the revision that it is to have: %s. "+
			"Make the pods available, or remove the reason why they cannot be created.", r.p.Waves[active].Name, r.p.TopologyKey, nodesHave(len(names)), some(names, mostNamed)))
	}
}

// nodesHave begins a sentence about what nodes have.
func nodesHave(nodes int) string {
	if nodes == 1 {
		return "1 node has"
	}
	return fmt.Sprintf("%d nodes have", nodes)
}
