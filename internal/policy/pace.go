// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"time"

	"everynode.dev/everynode/internal/rollout"
)

// uncounted reports for each node whether the pace does not count it although it lacks an available pod.
func (r *run) uncounted() []bool {
	out := make([]bool, len(r.s.Nodes))
	for i := range r.s.Nodes {
		out[i] = desired(&r.s.Nodes[i]) && (r.paceless(i) || r.getsFirst(i))
	}
	return out
}

// downWithout is how many nodes went down after the update had taken their pod, and have none. They are in the middle of their update, but by its own rule the set, which needs no pod there now, does not count them.
func (r *run) downWithout() (nodes int) {
	if r.s == r.in.Snapshot || r.undoing {
		return 0 // keepNeeded has kept none
	}
	for i := range r.s.Nodes {
		if n := &r.in.Snapshot.Nodes[i]; len(n.Pods) == 0 && n.Fit != r.s.Nodes[i].Fit && !r.isLeftOut(i) {
			nodes++
		}
	}
	return nodes
}

// getsFirst reports whether a node waits for its first pod, so it is in the middle of no update. A manager that has just started cannot know that: the manager before it may
// have deleted the pod of a node that has joined since the revision was made. Unless its create is refused, the node has a pod by the next decision.
func (r *run) getsFirst(i int) bool {
	n := &r.s.Nodes[i]
	if !r.bare(i) || n.Last != rollout.NoRevision || n.Unanswered {
		return false
	}
	if r.in.Memory == nil {
		r.wakeAt(r.s.Now.Add(time.Second))
		return false
	}
	return n.Obstacle() == "" || !r.out.Memory.unclear[n.Name]
}

// noteUnclear notes the nodes that getsFirst cannot judge before they have had a pod.
func (r *run) noteUnclear() {
	first := r.in.Memory == nil
	if !first && len(r.in.Memory.unclear) == 0 {
		return
	}
	for i := range r.s.Nodes {
		n := &r.s.Nodes[i]
		if len(n.Pods) > 0 || n.Last != rollout.NoRevision || first && !r.bare(i) || !first && !r.in.Memory.unclear[n.Name] {
			continue
		}
		if r.out.Memory.unclear == nil {
			r.out.Memory.unclear = map[string]bool{}
		}
		r.out.Memory.unclear[n.Name] = true
	}
}

// blockedByPace reports when nodes that cannot get their pod, or on which it does not become available, use up maxUpgrading, so that nothing goes on.
func (r *run) blockedByPace(g *rollout.Gate) {
	if !r.releases() {
		return
	}
	var lacking, stuck []string
	var paced func(i int) bool
	for i := range r.s.Nodes {
		switch n := &r.s.Nodes[i]; {
		case g.Absent[i] || !r.standing[i].InFlight:
		case r.bare(i) && n.Obstacle() != "":
			lacking = append(lacking, fmt.Sprintf("Node %s: %s. ", n.Name, Shortened(n.Obstacle(), longestMessage)))
		case r.isStuck(i):
			if paced == nil {
				paced = r.s.Paced()
			}
			if paced(i) {
				stuck = append(stuck, n.Name)
			}
		}
	}
	if len(lacking)+len(stuck) < g.InFlight {
		return
	}
	text := fmt.Sprintf("No other update starts: spec.pace.maxUpgrading allows %d at once, and ", g.InFlight)
	if len(lacking) > 0 {
		text += fmt.Sprintf("the pods of %s cannot be created. %s", nodeCount(int32(len(lacking))), lacking[0])
	}
	if len(lacking) > 0 && len(stuck) > 0 {
		text += "In addition, "
	}
	if len(stuck) > 0 {
		text += fmt.Sprintf("the update has not ended on %s, because the node is not ready or its pod does not become available: %s. ", nodeCount(int32(len(stuck))), some(stuck, mostNamed))
	}
	r.block("Pace", text+"Remove the reason, or raise spec.pace.maxUpgrading.")
}
