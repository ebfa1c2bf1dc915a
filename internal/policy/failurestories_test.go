// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// trial is a sequence of rollouts of good and bad revisions. It is judged by what is written down here, and not by what the policy reports.
type trial struct {
	*world
	random *rand.Rand
	// bad is how each revision fails; empty for one that works. broken are nodes on which no pod ever works.
	bad    []string
	broken map[string]bool
	// had are the nodes that have had a pod of the revision that is being rolled out.
	had map[string]bool
	log []string
}

const trialPolicy = `
waves: [{name: canary, nodes: {count: 3}, soak: 20s}, {name: half, nodes: {percent: 50}}]
failure: {nodeDeadline: 30s, maxRestarts: 2, waitingReasons: [ImagePullBackOff], action: Undo}
undo: {order: ByName}
`

func newTrial(t *testing.T, seed int64) *trial {
	tr := &trial{world: newWorld(t, trialPolicy), random: rand.New(rand.NewSource(seed)), bad: []string{"", ""}, broken: map[string]bool{}, had: map[string]bool{}}
	tr.s.Set.Update, tr.s.Set.MaxUnavailable = 0, rollout.Quantity{Value: 4}
	for range tr.random.Intn(3) {
		tr.broken[tr.s.Nodes[tr.random.Intn(len(tr.s.Nodes))].Name] = true
	}
	return tr
}

func (tr *trial) note(format string, args ...any) {
	tr.log = append(tr.log, fmt.Sprintf(format, args...))
}

// begin changes the template to a revision that fails in this way.
func (tr *trial) begin(bad string) {
	s := &tr.s
	s.Revisions = append(s.Revisions, rollout.Revision{Name: fmt.Sprintf("v%d", len(s.Revisions)+1), Number: int64(len(s.Revisions) + 1), Created: s.Now})
	tr.marks, tr.bad, tr.had = append(tr.marks, 0), append(tr.bad, bad), map[string]bool{}
	tr.failed = make([]*everynode.Failure, 2)
	s.Set.Update = len(s.Revisions) - 1
	tr.note("the template changes to %s, which fails by %q", s.Revisions[s.Set.Update].Name, bad)
}

// step lets time pass: pods start or fail, and the decision is carried out.
func (tr *trial) step() {
	took := time.Duration(1+tr.random.Intn(5)) * time.Second
	wall := took
	switch tr.random.Intn(25) {
	case 0:
		wall += time.Duration(tr.random.Intn(7200)-3600) * time.Second
		tr.note("the clock jumps by %s", wall)
	case 1:
		tr.restored = true
		tr.note("another leader")
	}
	for i := range tr.s.Nodes {
		for k := range tr.s.Nodes[i].Pods {
			tr.run(tr.s.Nodes[i].Name, &tr.s.Nodes[i].Pods[k])
		}
	}
	tr.jump(wall, took)
	s := tr.s
	tr.out.Enter(&s, nil)
	plan := rollout.Decide(s)
	for _, a := range plan.Actions {
		n := &tr.s.Nodes[a.Node]
		switch a.Kind {
		case rollout.Create:
			tr.put(n.Name, a.Revision, false)
			n.Pods[0].UID = fmt.Sprint(n.Name, len(tr.log))
			if a.Revision == tr.s.Set.Update {
				tr.had[n.Name] = true
			}
			tr.note("create %s v%d", n.Name, a.Revision+1)
		case rollout.Delete:
			n.Last, n.Pods = s.Set.Update, nil
			tr.note("delete %s", n.Name)
		}
	}
}

// run is what becomes of a pod in a step.
func (tr *trial) run(node string, p *rollout.Pod) {
	how := tr.bad[p.Revision]
	if tr.broken[node] {
		how = "pull"
	}
	switch {
	case how == "pull":
		p.Ready, p.Waiting = false, rollout.WaitingFor("ImagePullBackOff")
	case how == "crash" && tr.random.Intn(2) == 0:
		p.Ready, p.Restarts, p.ReadySince = !p.Ready, p.Restarts+1, tr.s.Now
	case how == "hang":
	case how == "" && !p.Ready && tr.random.Intn(20) > 0:
		p.Ready, p.ReadySince = true, tr.s.Now
	}
}

// TestTrials: a bad revision reaches the canary only, and all nodes on which anything works return to the committed revision. A good one is never undone,
// also not because of nodes that were broken before, by another leader, or by a clock; and it reaches all nodes if none is broken.
func TestTrials(t *testing.T) {
	trials := 400
	if testing.Short() {
		trials = 80
	}
	undone, done := 0, 0
	for seed := range int64(trials) {
		tr := newTrial(t, seed)
		for range 100 {
			tr.step() // the broken nodes break
		}
		committed := 0
		for range 3 {
			bad := []string{"", "pull", "crash", "hang"}[tr.random.Intn(4)]
			tr.begin(bad)
			for range 150 {
				tr.step()
				if st := tr.out.Status; bad == "" && st.Failure != nil {
					t.Fatalf("trial %d: a good revision has failed: %s\n%s", seed, st.Failure.Message, strings.Join(tr.log, "\n"))
				}
			}
			end := func(what string) {
				t.Fatalf("trial %d: %s\n%+v\n%s\n%s", seed, what, *tr.out.Status, tr.verdicts(), strings.Join(tr.log[max(0, len(tr.log)-60):], "\n"))
			}
			canaryWorks := !tr.broken["a"] && !tr.broken["b"] && !tr.broken["c"]
			switch phase := tr.out.Status.Phase; {
			case bad == "" && (len(tr.broken) == 0 || tr.marks[tr.s.Set.Update] > 0) && phase != v1alpha1.PhaseComplete:
				end("a good revision is not complete")
			case bad == "":
				if tr.marks[tr.s.Set.Update] > 0 {
					committed = tr.s.Set.Update
					done++
				}
				continue
			case len(tr.had) > 3:
				end(fmt.Sprintf("%d nodes have had the bad revision", len(tr.had)))
			case canaryWorks && phase != v1alpha1.PhaseFailed:
				end("a bad revision has not failed")
			case !canaryWorks:
				continue
			}
			undone++
			for i := range tr.s.Nodes {
				n := &tr.s.Nodes[i]
				if len(n.Pods) != 1 || n.Pods[0].Revision == tr.s.Set.Update || !tr.broken[n.Name] && (n.Pods[0].Revision != committed || !n.Pods[0].Ready) {
					end(n.Name + " has not returned")
				}
			}
		}
	}
	if undone < trials/4 || done < trials/4 {
		t.Errorf("%d revisions were undone and %d completed, of %d trials", undone, done, trials)
	}
}

// undoing is a world in which the revision has failed on two nodes of the canary, and all nodes return to the committed one.
func undoing(t *testing.T) *world {
	t.Helper()
	w := canary(t, judged)
	w.fails("a", pulls)
	w.fails("b", pulls)
	w.pass(time.Second)
	w.pass(time.Second)
	w.want("abc", v1alpha1.PhaseUndoing, "canary")
	return w
}

// TestAFailureWhileThePolicyStalls: the mark of a failure counts only with the status, so the status keeps the failure while nothing is decided.
func TestAFailureWhileThePolicyStalls(t *testing.T) {
	for name, stall := range map[string]func(w *world){
		"two policies apply":    func(w *world) { w.policies = append(w.policies, read(t, "waves: []")) },
		"the policy is invalid": func(w *world) { w.policies = []*policy.Policy{read(t, "failure: {waitingReasons: [none]}")} },
		"users update the set":  func(w *world) { w.s.Set.Strategy = rollout.OnDelete },
	} {
		t.Run(name, func(t *testing.T) {
			w := undoing(t)
			policies, strategy := w.policies, w.s.Set.Strategy
			stall(w)
			for range 2 {
				w.restored = true
				w.pass(time.Second)
			}
			w.want("", v1alpha1.PhaseStalled, "")
			if got := w.out.Status; got.Failure == nil || len(got.Blocking) != 1 {
				t.Errorf("%+v", got)
			}
			w.policies, w.s.Set.Strategy, w.restored = policies, strategy, true
			for range 3 {
				w.pass(time.Second)
				w.want("", v1alpha1.PhaseFailed, "canary")
			}
		})
	}
}

// TestAFailureWhileTheSetIsNotServed: what is reported of a set for which nothing is decided keeps the failure and the committed revision, so that nothing
// starts when it is served again.
func TestAFailureWhileTheSetIsNotServed(t *testing.T) {
	w := undoing(t)
	w.last, w.restored = policy.Idle(policy.Set{Name: "agent"}, w.last, policy.NotServed("another controller keeps its pods", "")), true
	if w.last.Phase != v1alpha1.PhaseStalled || w.last.Blocking[0].Reason != "NotServed" || w.last.CommittedRevision != "agent-v1" {
		t.Errorf("%+v", w.last)
	}
	for range 2 {
		w.pass(time.Second)
		w.want("", v1alpha1.PhaseFailed, "canary")
	}
}

// TestAMarkThatIsRemovedDuringAnUndo: an account that may write ControllerRevisions removes the mark of the committed revision, or writes a newer one elsewhere, again and again while nodes return.
// The status names the committed revision, so the nodes return all the same. Until then, nothing reports an end, or that no revision is committed.
func TestAMarkThatIsRemovedDuringAnUndo(t *testing.T) {
	for name, forge := range map[string]func(w *world){
		"removed":            func(w *world) { w.marks[0] = 0 },
		"a newer one exists": func(w *world) { w.marks[1] = w.marks[0] + 100 },
	} {
		t.Run(name, func(t *testing.T) {
			w := undoing(t)
			w.put("a", 1, false) // it has not returned yet
			w.pass(time.Second)
			w.events, w.notices = nil, nil
			for range 3 {
				forge(w)
				w.pass(time.Second)
				if w.out.Commit != 0 || w.last.Phase != v1alpha1.PhaseUndoing || len(w.last.Blocking) != 1 || len(w.events)+len(w.notices) > 0 {
					t.Fatalf("mark %d, phase %s, blocking %+v, events %v, notices %+v", w.out.Commit, w.last.Phase, w.last.Blocking, w.events, w.notices)
				}
			}
			w.want("a", v1alpha1.PhaseUndoing, "canary")
			forge(w)
			w.pass(time.Second)
			w.want("", v1alpha1.PhaseFailed, "canary")
			if !slices.Equal(w.events, []string{policy.ReasonRolloutUndoEnded}) {
				t.Errorf("events %v", w.events)
			}
		})
	}
}
