// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// Memory is what one decision passes to the next one, in addition to the status: the nodes on which the update has begun, and the time since
// some events, by a clock that users cannot set, because a wall clock that jumps ahead must not shorten the waits of a policy. The first decision of a process has only the wall clock.
type Memory struct {
	// number is the number that the revision of the template had.
	number int64
	// started is when an update was last started, by the wall clock, and startedFor how long ago that was.
	started    rollout.Time
	startedFor time.Duration
	// startedAfter is how long after the decision an update was started; 0 if none was.
	startedAfter time.Duration
	// down are the nodes that are not ready.
	down map[string]downFor
	// begun are the nodes on which the update has begun.
	begun begun
	// soaking are the pods of the target in the wave that soaks, in the order of its nodes. growing is whether it waited for nodes that had joined, and soaks whether
	// the time until the next decision belongs to its soak.
	soaking        []soakingPod
	growing, soaks bool
	// passed is how long ago the newest answer to a question was, if it is a Pass, by the question's id.
	passed map[string]time.Duration
	// unclear are the nodes that lacked their pod at the first decision of the process, and have had none since: their update may have begun before.
	unclear map[string]bool
}

// keepMemory passes on what a decision does not always determine.
func (r *run) keepMemory() {
	if m := r.in.Memory; m != nil {
		r.out.Memory.begun, r.out.Memory.soaking = m.begun, m.soaking
	}
	r.noteUnclear()
}

// downFor is how long a node has not been ready since a time of the wall clock.
type downFor struct {
	since rollout.Time
	lasts time.Duration
}

// notReadyFor is how long a node has not been ready.
func (r *run) notReadyFor(n *rollout.Node) time.Duration {
	now := downFor{since: n.Since}
	if c := r.in.Memory; c == nil {
		now.lasts = max(r.s.Now.Sub(n.Since), 0)
	} else if was, known := c.down[n.Name]; known && was.since == n.Since {
		now.lasts = was.lasts + max(r.in.Elapsed, 0)
	}
	if r.out.Memory.down == nil {
		r.out.Memory.down = map[string]downFor{}
	}
	r.out.Memory.down[n.Name] = now
	return now.lasts
}

// agePass adds the time since the last decision to the age of a Pass, and reports whether it is too old to count. A question that the last decision has not asked has
// not been measured since, so its Pass is too old.
func (r *run) agePass(id string, interval time.Duration) (old bool) {
	m := r.in.Memory
	if m == nil {
		return false
	}
	age, known := m.passed[id]
	if !known {
		return true
	}
	age += max(r.in.Elapsed, 0)
	r.setPassed(id, age)
	rest := passLasts(interval) - age
	if rest > 0 {
		r.wakeAt(r.s.Now.Add(rest))
	}
	return rest <= 0
}

// Unobserved returns what is passed on to a decision that does not directly follow the last one: what was measured before counts no more, because nothing was measured since.
func (m *Memory) Unobserved() *Memory {
	if m == nil {
		return nil
	}
	out := *m
	out.passed = nil
	return &out
}

// heard notes an answer to a question.
func (r *run) heard(id string, answer v1alpha1.Answer) {
	if delete(r.out.Memory.passed, id); answer == v1alpha1.AnswerPass {
		r.setPassed(id, 0)
	}
}

func (r *run) setPassed(id string, age time.Duration) {
	if r.out.Memory.passed == nil {
		r.out.Memory.passed = map[string]time.Duration{}
	}
	r.out.Memory.passed[id] = age
}

// StartedAfter notes that an update was started, as the time of the start in the status says, and how long after the decision that was.
func (r *Result) StartedAfter(d time.Duration) { r.Memory.startedAfter = d }

// startedFor is how long ago an update was last started, at that time by the wall clock.
func (r *run) startedFor(at rollout.Time) time.Duration {
	lasts := max(r.s.Now.Sub(at), 0)
	switch c := r.in.Memory; {
	case c == nil:
	case c.started == at:
		lasts = c.startedFor + max(r.in.Elapsed, 0)
	default: // it was started since the last decision
		lasts = min(lasts, max(r.in.Elapsed-c.startedAfter, 0))
	}
	r.out.Memory.started, r.out.Memory.startedFor = at, lasts
	return lasts
}

// shownStart returns when an update was last started at the latest, as the pods show it in whole seconds, rounded down; 0 for never. unclear is whether there is a node that
// shows no time, so that its update may have been started just now: its pod is prepared, is changed in place, or is missing.
func (r *run) shownStart() (last rollout.Time, unclear bool) {
	for i := range r.s.Nodes {
		fresh := r.in.Last == nil || r.in.Restored // else it is known which revision a node had that lacks its pod
		unclear = unclear || (!r.atRest() || r.returning) && r.bare(i) && (fresh || r.s.Nodes[i].Last == r.s.Set.Update)
		for k := range r.s.Nodes[i].Pods {
			p, shown := &r.s.Nodes[i].Pods[k], rollout.Time(0)
			switch {
			case p.InPlace != rollout.InPlaceNone || p.Hook >= rollout.HookWaiting && !p.Evicted:
				unclear = true
			case p.Revision == r.s.Set.Update && r.s.Set.InPlace:
				shown = max(p.Created, p.ReadySince)
			case p.Revision == r.s.Set.Update:
				shown = p.Created
			default:
				shown = p.DeletedAt
			}
			if shown != 0 {
				last = max(last, shown.Add(time.Second))
			}
		}
	}
	return last, unclear
}
