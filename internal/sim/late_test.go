// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/apply/executor"
	"everynode.dev/everynode/internal/rollout"
)

// turns are the turns that nodes have had in a pass.
type turns struct {
	// planned are the nodes on which the plan has something to do and no write was refused before, reached those for which a request was sent, and refused
	// those for which a write was refused.
	planned, reached, refused map[string]bool
	// other is whether a request of the pass failed in another way, which may end it: it is repeated then.
	other bool
	// left are the nodes that had no turn in the last pass, and those of which a write was refused in it.
	left map[string]map[string]bool
	// generation is that of the set: what was refused of another template is tried at once.
	generation int64
	// doubts are the pods of which an edit had no clear answer, and until when it may take effect. Until then no other edit of them is sent, whatever is planned:
	// it might be overtaken by the first one. So they are late because of their own write, and not because of a node that is refused.
	doubts map[string]time.Time
}

func (t *turns) begin(k known) {
	before := *t
	*t = turns{planned: map[string]bool{}, reached: map[string]bool{}, refused: map[string]bool{}, doubts: before.doubts}
	if t.doubts == nil {
		t.doubts = map[string]time.Time{}
	}
	if k.set != nil {
		t.generation = k.set.GetGeneration()
	}
	if t.generation == before.generation {
		t.left = before.left
	}
}

// reach notes that a request of the pass was sent.
func (s *sim) reach(r *request) {
	if node := s.nodeOfRequest(r); node != "" && !r.slow && !r.peer {
		r.m.turns.reached[node] = true
	}
}

// hear notes the answer to a request of the pass.
func (s *sim) hear(r *request, err error) {
	if r.peer {
		return
	}
	r.m.turns.hear(r, s.nodeOfRequest(r), err)
	if r.action.verb == "patch" && meaning(r.action.verb, err) == apply.Unclear {
		r.m.turns.doubts[r.action.pod] = s.w.now.Add(executor.Fence)
	}
}

// nodeOfRequest is the node of the pod that a request is about; empty if there is none.
func (s *sim) nodeOfRequest(r *request) string {
	if r.action.node != "" || r.action.pod == "" {
		return r.action.node
	}
	if p := s.w.pod(r.action.pod); p != nil {
		return nodeOf(p)
	}
	for _, p := range r.m.known.pods {
		if p.Name == r.action.pod {
			return nodeOf(p)
		}
	}
	return ""
}

// hear notes the answer to a request of the pass.
func (t *turns) hear(r *request, node string, err error) {
	answer := meaning(r.action.verb, err)
	switch {
	case r.slow || err == nil || !r.write && apierrors.IsNotFound(err):
	case r.write && r.ofPod && answer == apply.Refused:
		if slices.Contains(policyVerbs(), r.action.verb) { // where an adoption is refused, there may be something else to do
			t.refused[node] = true
		}
	case r.write && r.ofPod && (answer == apply.Gone || answer == apply.Differs):
	default:
		t.other = true
	}
}

// plan notes what a pass is to do now.
func (t *turns) plan(was *rollout.Snapshot, plan *rollout.Plan, now time.Time) {
	for _, a := range plan.Actions {
		edits := a.Kind != rollout.Create && a.Kind != rollout.Delete
		if n := &was.Nodes[a.Node]; n.Refusal == nil && !(edits && t.doubts[a.Pod].After(now)) {
			t.planned[n.Name] = true
		}
	}
}

// judgeTurns: a node that is not refused is never later than one pass because of one that is, and that pass comes within a second. It is asked where nothing
// else may end a pass early.
func (s *sim) judgeTurns(m *manager) {
	t := &m.turns
	before := t.left
	t.left = map[string]map[string]bool{}
	if t.other || m.cut || m != s.lead || slices.ContainsFunc([]string{"busy", "others", "slowness", "freezes"}, s.cfg.with) {
		return
	}
	for _, node := range sorted(t.planned) {
		if len(t.refused) == 0 || t.reached[node] {
			continue
		}
		t.left[node] = maps.Clone(t.refused)
		for _, of := range sorted(t.refused) {
			if before[node][of] {
				s.blame("late", "%s has done nothing on %s in two passes, in both of which a write for %s was refused", m.name, node, of)
			}
		}
		if soon := s.w.now.Add(time.Second); !m.asked && (m.wake.IsZero() || m.wake.After(soon)) {
			s.blame("late", "%s has done nothing on %s, because writes for %v were refused, and does not come back within a second", m.name, node, sorted(t.refused))
		}
	}
}

// judgePlan: what a plan has to do on the nodes that are not refused does not get less by the nodes that are: it is the same as if no write was refused
// there, and as if none was to be tried again there.
func (s *sim) judgePlan(was *rollout.Snapshot) {
	if !slices.ContainsFunc(was.Nodes, func(n rollout.Node) bool { return n.Refusal != nil }) {
		return
	}
	plan, acts := rollout.Decide(*was), map[int]bool{}
	for _, a := range plan.Actions {
		acts[a.Node] = true
		if waits := s.waitsFor(was, &plan, a); waits != "" {
			s.blame("late", "%v is planned for %s, of which a write was refused, and %s waits for the budget", a.Reason, was.Nodes[a.Node].Name, waits)
		}
	}
	for _, other := range []*rollout.Refusal{nil, {RetryAt: math.MaxInt64}} {
		changed := was.Copy()
		for i := range changed.Nodes {
			if n := &changed.Nodes[i]; n.Refusal != nil {
				n.Refusal = other
			}
		}
		for _, a := range rollout.Decide(changed).Actions {
			if n := &was.Nodes[a.Node]; n.Refusal == nil && !acts[a.Node] {
				s.blame("late", "nothing is planned for %s, where %v would be done if the other nodes were not refused, or not tried again", n.Name, a.Reason)
			}
		}
	}
}

// waitsFor is a node that waits for the budget although no write was refused there, where an action takes an available pod of a node with a refusal, or adds
// one to it; empty if there is none. With OpenYurt's annotations a node may be updated beyond the budget.
func (s *sim) waitsFor(was *rollout.Snapshot, plan *rollout.Plan, a rollout.Action) string {
	n := &was.Nodes[a.Node]
	starts := slices.Contains([]rollout.VerdictKind{rollout.Recreating, rollout.Surging, rollout.UpdatingInPlace}, a.Reason)
	serves := func(p rollout.Pod) bool {
		return p.Ready && !p.Deleting && !p.Doubtful && p.InPlace == rollout.InPlaceNone && p.ReadySince.Add(was.Set.MinReady) <= was.Now
	}
	if n.Refusal == nil || !starts || s.cfg.dialect == edgeRun || !slices.ContainsFunc(n.Pods, serves) {
		return ""
	}
	for i, v := range plan.Verdicts {
		if v.Kind == rollout.WaitBudget && was.Nodes[i].Refusal == nil {
			return was.Nodes[i].Name
		}
	}
	return ""
}

// TestLateIsBlamed: a node with something to do is blamed in the second pass in which nothing is sent for it and a write for another one is refused; only an edit of
// a pod with an edit in doubt excuses it, and only as long as that may take effect.
func TestLateIsBlamed(t *testing.T) {
	for name, c := range map[string]struct {
		kind   rollout.ActionKind
		doubt  time.Duration
		blamed bool
	}{
		"an edit":                             {rollout.Unmark, 0, true},
		"an edit of a pod in doubt":           {rollout.Unmark, time.Second, false},
		"an edit of a pod no longer in doubt": {rollout.Unmark, -time.Second, true},
		"a delete of a pod in doubt":          {rollout.Delete, time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &sim{w: newWorld()}
			m := &manager{s: s, asked: true}
			s.lead = m
			was := &rollout.Snapshot{Nodes: []rollout.Node{{Name: "n1"}}}
			for range 2 {
				m.turns.begin(known{})
				m.turns.doubts["p1"] = s.w.now.Add(c.doubt)
				m.turns.plan(was, &rollout.Plan{Actions: []rollout.Action{{Kind: c.kind, Pod: "p1"}}}, s.w.now)
				m.turns.refused["n2"] = true
				s.judgeTurns(m)
			}
			if blamed := s.broken != nil; blamed != c.blamed {
				t.Errorf("blamed: %t (%v), want %t", blamed, s.broken, c.blamed)
			}
		})
	}
}

// straggle lets a write take effect later, or never.
func (s *sim) straggle(r *request) {
	s.stragglers = append(s.stragglers, &straggler{r, r.lastMoment(s.w.now)})
}
