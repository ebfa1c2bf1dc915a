// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// TestLostRevision: the ControllerRevision of the committed revision is deleted in the middle of a rollout, so pods have a revision that nothing describes. Also
// when the template changes after that, and when the status is lost, the new revision passes all waves; no other revision takes the place of the lost one.
func TestLostRevision(t *testing.T) {
	for name, lose := range map[string]func(w *world){
		"the template stays":                  func(*world) {},
		"the template changes":                func(w *world) { w.change("v3") },
		"the status is lost too":              func(w *world) { w.last, w.restored = nil, true },
		"the template changes, and no status": func(w *world) { w.change("v3"); w.last, w.restored = nil, true },
		"a stranger has made one of its name": func(w *world) {
			w.s.Revisions = append(w.s.Revisions, rollout.Revision{Name: "v1", Number: 9})
			w.marks, w.foreign = append(w.marks, 0), 1
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "waves: [{name: canary, nodes: {count: 1}, soak: 10s, after: [{type: Approval}]}]")
			w.pass(0)
			w.want("a", v1alpha1.PhaseRolling, "canary")
			w.forget()
			lose(w)
			target := w.s.Revisions[w.s.Set.Update].Name
			for range 20 {
				w.pass(time.Second)
				w.roll()
			}
			if got := w.have(w.s.Set.Update); got != "a" || w.out.Status.Phase != v1alpha1.PhaseWaitingForApproval || slices.Max(w.marks) > 0 {
				t.Fatalf("%q have %s, phase %s, marks %v", got, target, w.out.Status.Phase, w.marks)
			}
			w.approve("yes", "canary", target, v1alpha1.Approve)
			for range 3 {
				w.pass(time.Second)
				w.roll()
			}
			w.pass(time.Second)
			if got := w.have(w.s.Set.Update); got != "abcdefghij" || w.out.Status.Phase != v1alpha1.PhaseComplete || w.marks[w.s.Set.Update] == 0 {
				t.Errorf("%q have %s, phase %s, marks %v", got, target, w.out.Status.Phase, w.marks)
			}
		})
	}
}

// TestNodesThatJoinAfterTheLoss: a revision that no pod has may have been made by another account with the hash of one that was deleted. If the digest in the status says
// that it is not the committed one, no node that joins gets it.
func TestNodesThatJoinAfterTheLoss(t *testing.T) {
	for digest, want := range map[string]int{"": 1, "sha256:other": 0} {
		w := newWorld(t, "waves: [{name: canary, nodes: {count: 1}, after: [{type: Approval}]}]")
		w.pass(0)
		w.forget()
		w.s.Revisions, w.marks = append(w.s.Revisions, rollout.Revision{Name: "v0", Number: 1}), append(w.marks, 0)
		last := *w.last
		last.CommittedDigest = digest
		w.last = &last
		if w.pass(time.Second); w.out.Gate.Joining != want {
			t.Errorf("digest %q: nodes that join get revision %d, want %d", digest, w.out.Gate.Joining, want)
		}
	}
}

// TestLostRevisionReturns: the template that describes the committed revision again is still an undo after its ControllerRevision was deleted.
func TestLostRevisionReturns(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 1}, soak: 10s}]")
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "canary")
	for _, name := range strings.Split("bcdefgh", "") {
		w.put(name, 1, true)
	}
	w.forget()
	w.pass(0)
	w.change("v1")
	w.put("i", 1, true)
	w.put("j", 1, true)
	w.pass(0)
	w.want("abcdefgh", v1alpha1.PhaseUndoing, "")
}

// TestBudgetUsedUpByHeldNodes: nodes of later waves with pods that do not work use up the budget, and the status says so.
func TestBudgetUsedUpByHeldNodes(t *testing.T) {
	blocking := func(w *world) (text string) {
		w.pass(0)
		for _, b := range w.out.Status.Blocking {
			text += b.Reason + ": " + b.Message
		}
		return text
	}
	w := newWorld(t, "{waves: [{name: canary, nodes: {count: 2}}], pace: {maxUnavailable: 2}}")
	w.s.Set.MaxUnavailable = rollout.Quantity{Value: 30, Percent: true}
	w.put("i", 0, false)
	if got := blocking(w); got != "" {
		t.Errorf("one node is down: %q", got)
	}
	w.put("j", 0, false)
	w.put("h", 0, false)
	w.policies[0].Tighten(&w.s)
	const want = "Budget: No other update starts: 3 nodes have no available pod, get no other one now, and use up the budget, for maxUnavailable is 2. Make their pods available or delete them, or raise maxUnavailable."
	if got := blocking(w); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	w.want("", v1alpha1.PhaseRolling, "canary")
	w.put("a", 0, false) // costs nothing
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "canary")
	w.put("b", 1, true)
	if got := blocking(w); strings.Contains(got, "Budget") {
		t.Errorf("the wave does not wait: %q", got)
	}

	for of, spec := range map[string]string{
		"groups": "{order: {topologyKey: zone, domains: OneAtATime}, pace: {maxUnavailable: 1}}",
		"steps":  "{waves: [{name: all, nodes: {percent: 100}, growth: {start: 2}}], pace: {maxUnavailable: 1}}",
	} {
		w := newWorld(t, spec)
		for name := range strings.SplitSeq("cdefghij", "") {
			w.labels[name] = map[string]string{"zone": "2"}
		}
		w.put("j", 0, false)
		w.policies[0].Tighten(&w.s)
		const want = "Budget: No other update starts: 1 node has no available pod, gets no other one now, and uses up the budget, for maxUnavailable is 1. Make their pods available or delete them, or raise maxUnavailable."
		if got := blocking(w); got != want {
			t.Errorf("%s: %q, want %q", of, got, want)
		}
		w.want("", v1alpha1.PhaseRolling, w.out.Status.Wave)
	}
}

// TestAMarkOfAStranger: neither does its revision count as committed, nor are the numbers of later marks taken from it.
func TestAMarkOfAStranger(t *testing.T) {
	w := newWorld(t, "waves: [{name: all}]")
	w.s.Revisions = append(w.s.Revisions, rollout.Revision{Name: "evil", Number: 9})
	w.marks, w.foreign = append(w.marks, 1000), 2
	for range 5 {
		w.pass(time.Second)
		if st := w.out.Status; st.CommittedRevision == "agent-evil" || w.out.Commit == 1 && w.out.CommitNumber != 2 {
			t.Fatalf("committed %s, commit %d with number %d", st.CommittedRevision, w.out.Commit, w.out.CommitNumber)
		}
		w.roll()
	}
	if w.marks[1] != 2 {
		t.Errorf("marks %v", w.marks)
	}
}

// TestAllPodsAreDeleted: under a new policy nothing is committed yet. If users delete all pods, what the nodes had is, so that the new revision goes through all waves.
func TestAllPodsAreDeleted(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 1}, soak: 1h}]")
	w.marks = []int64{0, 0}
	for i := range w.s.Nodes {
		w.s.Nodes[i].Pods, w.s.Nodes[i].Last = nil, 0
	}
	w.pass(0)
	w.pass(time.Second)
	w.roll()
	if got := w.have(1); got != "a" || w.last.CommittedRevision != "agent-v1" {
		t.Errorf("%q have the new revision, and %s is committed", got, w.last.CommittedRevision)
	}
}

// TestWhyALostRevisionIsNotUndone: a revision has been committed, and an account has deleted its ControllerRevision. That is why nodes cannot return, and not that no revision has passed all waves.
// The same holds if it is deleted while nodes return: nothing reports that they have.
func TestWhyALostRevisionIsNotUndone(t *testing.T) {
	for name, fail := range map[string]func() *world{
		"before the failure": func() *world {
			w := canary(t, judged)
			w.forget()
			w.fails("a", pulls)
			w.fails("b", pulls)
			return w
		},
		"during the undo": func() *world {
			w := undoing(t)
			w.put("a", 1, false)
			w.pass(time.Second)
			w.events, w.notices = nil, nil
			w.forget()
			return w
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := fail()
			w.pass(time.Second)
			w.pass(time.Second)
			w.want("", v1alpha1.PhaseFailed, "canary")
			w.say("UndoNotPossible", "because the ControllerRevision agent-v1 of the committed revision does not exist any more.")
			if slices.Contains(w.events, policy.ReasonRolloutUndoEnded) {
				t.Errorf("events %v", w.events)
			}
		})
	}
}
