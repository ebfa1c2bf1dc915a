// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/rollout"
)

const (
	// mostChanges is the maximum number of changes that a recording keeps, mostEntries that of changes and nodes of all recordings: about 100 bytes each.
	mostChanges = 100_000
	mostEntries = 400_000
	// oldest is how long a change is kept.
	oldest = 6 * time.Hour
	// longestSilence is the maximum time between two looks; more is a gap, in which nothing is known.
	longestSilence = 25 * time.Second
)

// moment is a time in milliseconds since 1970.
type moment int64

// state is the recorded state of a node at one time.
type state struct {
	verdict  rollout.VerdictKind
	revision string // of the newest pod; empty if there is none
	notReady bool
}

// nodeState is the state of a node.
type nodeState struct {
	node string
	state
}

// change is a new state of a node at one time. gone reports whether the set no longer concerns the node.
type change struct {
	at moment
	nodeState
	gone bool
}

// gap is a time in which nothing is known.
type gap struct{ from, to moment }

// recording contains the states of the nodes of a set now, and the changes that led to them. It is bounded: the oldest changes become part of the initial picture.
type recording struct {
	uid types.UID
	// began is the time of the initial picture, seen that of now, which was the last look.
	began, seen moment
	now         map[string]state
	// before has what the initial picture has of the nodes with changes, nil for those that it does not have. All others are in it as they are now.
	before map[string]*state
	// changes and gaps are sorted by time.
	changes []change
	gaps    []gap
	// folded reports whether something was recorded before began, which is not kept.
	folded bool
}

// look records the states of all nodes at a time, sorted by node. A look from before the last one is late, and is ignored.
func (r *recording) look(at moment, nodes []nodeState) {
	silence := moment(longestSilence.Milliseconds())
	switch {
	case at < r.seen-silence: // the clock was set back
		*r = recording{uid: r.uid}
	case at < r.seen:
		return
	}
	now := make(map[string]state, len(nodes))
	for _, n := range nodes {
		now[n.node] = n.state
	}
	if r.now == nil {
		r.began, r.now, r.before, r.seen = at, now, map[string]*state{}, at
		return
	}
	if at-r.seen > silence {
		r.gaps = append(r.gaps, gap{r.seen, at})
	}
	for _, n := range nodes {
		if was, known := r.now[n.node]; !known || was != n.state {
			r.add(change{at: at, nodeState: n})
		}
	}
	for _, node := range slices.Sorted(maps.Keys(r.now)) {
		if _, there := now[node]; !there {
			r.add(change{at: at, nodeState: nodeState{node: node}, gone: true})
		}
	}
	r.now, r.seen = now, at
	r.forget(at - moment(oldest.Milliseconds()))
	r.fold(len(r.changes) - mostChanges)
}

// add adds a change to a state that differs from the one in now.
func (r *recording) add(c change) {
	if _, known := r.before[c.node]; !known {
		r.before[c.node] = nil
		if was, there := r.now[c.node]; there {
			r.before[c.node] = &was
		}
	}
	r.changes = append(r.changes, c)
}

// fold makes the oldest changes part of the initial picture.
func (r *recording) fold(count int) {
	if count <= 0 {
		return
	}
	folded := map[string]*state{}
	for i := range r.changes[:count] {
		c := &r.changes[i]
		if folded[c.node] = &c.state; c.gone {
			folded[c.node] = nil
		}
	}
	for node := range folded {
		delete(r.before, node)
	}
	for i := range r.changes[count:] {
		node := r.changes[count+i].node
		was, is := folded[node]
		if !is {
			continue
		}
		if r.before[node] = nil; was != nil {
			copied := *was // the change can be freed
			r.before[node] = &copied
		}
		delete(folded, node)
	}
	r.begin(r.changes[count-1].at)
	r.changes = r.changes[count:]
}

// forget folds what is older than a time, which becomes the begin.
func (r *recording) forget(before moment) {
	if before <= r.began {
		return
	}
	count, _ := slices.BinarySearchFunc(r.changes, before, func(c change, t moment) int { return int(c.at - t) })
	r.fold(count)
	r.begin(before)
}

// begin moves the begin, and drops the gaps before it.
func (r *recording) begin(at moment) {
	r.began, r.folded = at, true
	for len(r.gaps) > 0 && r.gaps[0].to <= at {
		r.gaps = r.gaps[1:]
	}
	if len(r.gaps) > 0 {
		r.gaps[0].from = max(r.gaps[0].from, at)
	}
}

// size is how many entries it has.
func (r *recording) size() int { return len(r.now) + len(r.before) + len(r.changes) }

// base is the initial picture.
func (r *recording) base() map[string]state {
	base := maps.Clone(r.now)
	for node, was := range r.before {
		if delete(base, node); was != nil {
			base[node] = *was
		}
	}
	return base
}

// statesOf returns the states of the nodes that the set concerns.
func statesOf(m *inspect.Evaluation) []nodeState {
	var all []nodeState
	for i := range m.Snapshot.Nodes {
		if !inspect.Relevant(&m.Plan, i) {
			continue
		}
		node := &m.Snapshot.Nodes[i]
		n := nodeState{node: node.Name, state: state{verdict: m.Plan.Verdicts[i].Kind, notReady: !node.Ready && !node.Gone}}
		if pods := node.Pods; len(pods) > 0 {
			n.revision = inspect.RevisionName(&m.Snapshot, pods[len(pods)-1].Revision)
		}
		all = append(all, n)
	}
	return all
}

// past is a recording as the page gets it. Times are in milliseconds since 1970.
type past struct {
	Began  moment `json:"began"`
	Until  moment `json:"until"`
	Folded bool   `json:"folded,omitempty"`
	// Nodes are the names, and States the states, that the following refers to by index.
	Nodes  []string    `json:"nodes"`
	States []pastState `json:"states"`
	// Base contains the state of each node at the beginning, and -1 for nodes that the set did not select.
	Base []int `json:"base"`
	// Changes has three numbers for each change: the time since the beginning, the node and its state.
	Changes []int64     `json:"changes"`
	Gaps    [][2]moment `json:"gaps"`
}

// pastState is a state as the page gets it.
type pastState struct {
	Verdict  string `json:"v"`
	Revision string `json:"r,omitempty"`
	NotReady bool   `json:"x,omitempty"`
}

// past returns the recording for the page.
func (r *recording) past() past {
	p := past{Began: r.began, Until: r.seen, Folded: r.folded, Nodes: []string{}, States: []pastState{}, Base: []int{}, Changes: []int64{}, Gaps: [][2]moment{}}
	nodes, states := map[string]int{}, map[state]int{}
	node := func(name string) int {
		at, known := nodes[name]
		if !known {
			at = len(p.Nodes)
			nodes[name], p.Nodes, p.Base = at, append(p.Nodes, name), append(p.Base, -1)
		}
		return at
	}
	stateAt := func(s state) int {
		at, known := states[s]
		if !known {
			at = len(p.States)
			states[s], p.States = at, append(p.States, pastState{s.verdict.String(), s.revision, s.notReady})
		}
		return at
	}
	base := r.base()
	for _, name := range slices.Sorted(maps.Keys(base)) {
		p.Base[node(name)] = stateAt(base[name])
	}
	for i := range r.changes {
		c, to := &r.changes[i], -1
		if !c.gone {
			to = stateAt(c.state)
		}
		p.Changes = append(p.Changes, int64(c.at-r.began), int64(node(c.node)), int64(to))
	}
	for _, g := range r.gaps {
		p.Gaps = append(p.Gaps, [2]moment{g.from, g.to})
	}
	return p
}
