// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// TestDecisionsThatAreNotStored: what releases nodes counts when the next manager would know it as well.
func TestDecisionsThatAreNotStored(t *testing.T) {
	for _, decision := range []v1alpha1.Decision{v1alpha1.Approve, v1alpha1.Promote} {
		t.Run(string(decision), func(t *testing.T) {
			spec, phase := "waves: [{name: canary, nodes: {count: 3}, after: [{type: Approval}]}]", v1alpha1.PhaseWaitingForApproval
			if decision == v1alpha1.Promote {
				spec, phase = "waves: [{name: canary, nodes: {count: 3}, soak: 1h}]", v1alpha1.PhaseSoaking
			}
			w := canary(t, spec)
			w.refuse()
			w.approve("yes", "canary", "v2", decision)
			for range 3 {
				w.pass(time.Second)
				w.want("", phase, "canary")
			}
			if st := w.approvals[0].Status; st.State != v1alpha1.ApprovalValid || st.TargetNumber != 2 || st.Attempt != 1 {
				t.Errorf("the state is %+v", st)
			}
			w.lead()
			w.pass(time.Second)
			w.want("", phase, "canary")
			w.store()
			w.pass(time.Second)
			w.want("defghij", v1alpha1.PhaseRolling, "remaining")
		})
	}
}

// TestRetryThatIsNotStored: a retry begins one attempt, also if the manager that began it could not write that into the status.
func TestRetryThatIsNotStored(t *testing.T) {
	w := canary(t, strings.Replace(judged, "Undo", "Pause", 1))
	w.fails("a", pulls)
	w.fails("b", pulls)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseFailed, "canary")
	failed := w.last
	w.refuse()
	w.approve("retry", "", "v2", v1alpha1.Retry)
	w.pass(time.Second)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseFailed, "canary")
	w.store()
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseRolling, "")
	if w.last.Attempt != 2 || w.failed[1] != nil {
		t.Fatalf("status %+v, mark %+v", w.last, w.failed[1])
	}
	w.pass(time.Second)
	w.lead()
	w.last = failed // the status of the policy could not be written
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseRolling, "")
	w.put("a", 1, true)
	w.put("b", 1, true)
	w.pass(time.Second)
	w.fails("a", pulls)
	w.fails("b", pulls)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseFailed, "canary")
	if w.last.Attempt != 2 {
		t.Errorf("attempt %d", w.last.Attempt)
	}
	w.lead()
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseFailed, "canary") // the retry counted once
}

// TestApprovalsOfAnEarlierAttempt do not count after a retry, which begins with the first wave.
func TestApprovalsOfAnEarlierAttempt(t *testing.T) {
	w := canary(t, "waves: [{name: canary, nodes: {count: 3}, after: [{type: Approval}]}]\nfailure: {action: Undo}")
	w.approve("yes", "canary", "v2", v1alpha1.Approve)
	w.pass(time.Second)
	w.want("defghij", v1alpha1.PhaseRolling, "remaining")
	w.approve("undo", "", "v2", v1alpha1.UndoRollout)
	w.pass(time.Second)
	w.want("defghijabc", v1alpha1.PhaseUndoing, "")
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseFailed, "")
	w.approve("retry", "", "v2", v1alpha1.Retry)
	w.pass(time.Second)
	w.pass(time.Second)
	w.want("abc", v1alpha1.PhaseRolling, "canary")
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseWaitingForApproval, "canary")
	w.approve("again", "canary", "v2", v1alpha1.Approve)
	w.pass(time.Second)
	w.want("defghij", v1alpha1.PhaseRolling, "remaining")
}

// TestUndoThatIsNotStored acts at once, also for the next manager, and does not act again after a retry: that one waits until the state of the undo is stored.
func TestUndoThatIsNotStored(t *testing.T) {
	w := canary(t, "waves: [{name: canary, nodes: {count: 3}, soak: 1h}]")
	w.refuse()
	w.approve("undo", "", "v2", v1alpha1.UndoRollout)
	w.pass(time.Second)
	w.want("abc", v1alpha1.PhaseUndoing, "")
	w.last, w.failed[1] = nil, nil // nothing of it is stored
	w.lead()
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseFailed, "")
	w.approve("retry", "", "v2", v1alpha1.Retry)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseFailed, "")
	if st := w.approvals[1].Status; st.State != "" {
		t.Fatalf("the state of the retry is %+v", st)
	}
	w.store()
	w.pass(time.Second)
	w.pass(time.Second)
	w.want("abc", v1alpha1.PhaseRolling, "canary")
	w.lead()
	w.last = nil // an attempt that no status has
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	w.restored = true
	w.approvals[0].Status.Attempt = 0 // an earlier manager wrote none
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseSoaking, "canary")
}

// TestUndoAfterARetry is the last word, whatever the manager reads first.
func TestUndoAfterARetry(t *testing.T) {
	for _, late := range []bool{false, true} {
		w := canary(t, "waves: [{name: canary, nodes: {count: 3}, soak: 1h}]")
		w.approve("undo", "", "v2", v1alpha1.UndoRollout)
		w.pass(time.Second)
		w.want("abc", v1alpha1.PhaseUndoing, "")
		w.pass(time.Second)
		w.approve("retry", "", "v2", v1alpha1.Retry)
		if late {
			w.refuse()
			w.pass(time.Second)
		}
		w.approve("again", "", "v2", v1alpha1.UndoRollout)
		w.approvals[2].CreationTimestamp = metav1.NewTime(w.approvals[1].CreationTimestamp.Add(time.Second))
		for range 4 {
			w.pass(time.Second)
			if got := w.roll(); got != "" {
				t.Fatalf("rolled %s", got)
			}
			w.store()
		}
		w.want("", v1alpha1.PhaseFailed, "")
	}
}

// TestUndoThatIsNeverStored: neither status can be written from an undo until its revision is the target again. The next manager cannot tell it from a new one, so
// no node gets the revision. When the state can be written, a retry ends that.
func TestUndoThatIsNeverStored(t *testing.T) {
	w := canary(t, "waves: [{name: canary, nodes: {count: 3}, soak: 1h}]")
	w.refuse()
	w.approve("undo", "", "v2", v1alpha1.UndoRollout)
	w.pass(time.Second)
	w.want("abc", v1alpha1.PhaseUndoing, "")
	w.change("v3")
	w.last = nil
	w.lead()
	w.pass(time.Second)
	w.want("abc", v1alpha1.PhaseRolling, "canary")
	w.s.Set.Update, w.s.Revisions[1].Number = 1, 9
	w.last = nil
	w.lead()
	w.pass(time.Second)
	w.want("abc", v1alpha1.PhaseUndoing, "")
	if got := w.have(0); got != "abcdefghij" {
		t.Fatalf("%s have the committed revision", got)
	}
	w.store()
	w.pass(time.Second)
	w.approve("retry", "", "v2", v1alpha1.Retry)
	w.pass(time.Second)
	w.pass(time.Second)
	w.want("abc", v1alpha1.PhaseRolling, "canary")
}

// TestNoWaveWaitsAtRest: the mark of the committed revision ends a rollout, also one that has come back in the middle of it, as after a restore: then no wave waits for an
// approval that would have no effect.
func TestNoWaveWaitsAtRest(t *testing.T) {
	w := canary(t, "waves: [{name: canary, nodes: {count: 3}, after: [{type: Approval}]}]")
	w.want("", v1alpha1.PhaseWaitingForApproval, "canary")
	w.marks[w.s.Set.Update], w.last.CommittedRevision, w.last.CommittedDigest = 9, "agent-v2", ""
	w.pass(time.Second)
	for _, wave := range w.out.Status.Waves {
		if wave.Phase != v1alpha1.WavePassed {
			t.Errorf("in the phase %s the wave %s is %s", w.out.Status.Phase, wave.Name, wave.Phase)
		}
	}
}

// TestApprovalOfAWaveThatDoesNotExist: it is not called valid while the policy has no such wave, and counts when it has.
func TestApprovalOfAWaveThatDoesNotExist(t *testing.T) {
	w := canary(t, "waves: [{name: canary, nodes: {count: 3}, after: [{type: Approval}]}]")
	w.approve("yes", "canaries", "v2", v1alpha1.Approve)
	w.approve("on", "canaries", "v2", v1alpha1.Promote)
	for range 3 {
		w.pass(time.Second)
		w.want("", v1alpha1.PhaseWaitingForApproval, "canary")
	}
	for i := range w.approvals {
		if st := w.approvals[i].Status; st.State != "" {
			t.Errorf("%s: the state is %+v", w.approvals[i].Name, st)
		}
	}
	w.approve("really", "canary", "v2", v1alpha1.Approve)
	w.pass(time.Second)
	w.pass(time.Second)
	w.want("defghij", v1alpha1.PhaseRolling, "remaining")
}

// TestDecisionsThatNeedNoWave: an Undo and a Retry may name any wave.
func TestDecisionsThatNeedNoWave(t *testing.T) {
	w := canary(t, "waves: [{name: canary, nodes: {count: 3}, after: [{type: Approval}]}]")
	w.approve("undo", "canaries", "v2", v1alpha1.UndoRollout)
	for range 6 {
		w.pass(time.Second)
	}
	w.approve("retry", "canaries", "v2", v1alpha1.Retry)
	for range 6 {
		w.pass(time.Second)
	}
	for i := range w.approvals {
		if st := w.approvals[i].Status; st.State != v1alpha1.ApprovalValid {
			t.Errorf("%s: the state is %+v", w.approvals[i].Name, st)
		}
	}
}

// TestWhoDecided: the events of a decision name the user, the approval and the reason.
func TestWhoDecided(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 1}, after: [{type: Approval}]}]")
	w.pass(0)
	w.roll()
	w.approve("yes", "canary", "v2", v1alpha1.Approve)
	w.pass(0)
	if want := "The wave canary of revision agent-v2 has passed, approved by ada with rolloutapproval/yes."; !slices.Contains(w.messages, want) {
		t.Error(w.messages)
	}
	w.approve("no", "", "v2", v1alpha1.Reject)
	w.approvals[1].Spec.Reason = "it leaks memory"
	w.pass(0)
	if want := "Revision agent-v2 was rejected by ada with rolloutapproval/no (it leaks memory): no further node gets it."; !slices.Contains(w.messages, want) {
		t.Error(w.messages)
	}
}

// TestHowAWavePassed: the event of a wave that a user has promoted does not say that it was approved.
func TestHowAWavePassed(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 1}, soak: 1h}]")
	w.pass(0)
	w.roll()
	w.pass(time.Second)
	w.approve("now", "canary", "v2", v1alpha1.Promote)
	w.pass(time.Second)
	if want := "The wave canary of revision agent-v2 has passed, promoted by ada with rolloutapproval/now."; !slices.Contains(w.messages, want) {
		t.Error(w.messages)
	}
}

// TestAnApprovalThatIsNeeded: the event has the command.
func TestAnApprovalThatIsNeeded(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 1}, after: [{type: Approval}]}]")
	w.pass(0)
	w.roll()
	w.pass(time.Second)
	if want := "The wave canary of revision agent-v2 is complete: to continue, run kubectl everynode approve daemonset/agent -n default, or create a RolloutApproval."; !slices.Contains(w.messages, want) {
		t.Error(w.messages)
	}
}

// TestApprovalsThatAreBeingDeleted have no effect any more, although a finalizer keeps them.
func TestApprovalsThatAreBeingDeleted(t *testing.T) {
	w := canary(t, "waves: [{name: canary, nodes: {count: 3}, after: [{type: Approval}]}]")
	deleted := func() {
		w.approvals[len(w.approvals)-1].DeletionTimestamp = &metav1.Time{Time: time.Unix(0, int64(w.s.Now))}
	}
	w.approve("yes", "canary", "v2", v1alpha1.Approve)
	deleted()
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseWaitingForApproval, "canary")
	w.approve("no", "", "v2", v1alpha1.Reject)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseRejected, "")
	deleted()
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseWaitingForApproval, "canary")
}

// TestAnApprovalOfARevisionThatIsNotInTheHistory: an approval is valid only for the rollout that is active when it is created. One of a revision that the history does not have at that time,
// because a user approves a rollout too late, when its revision is deleted already, approves nothing when the template describes that revision again.
func TestAnApprovalOfARevisionThatIsNotInTheHistory(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 1}, after: [{type: Approval}]}]")
	w.s.Set.Update = 0
	w.pass(0)
	w.approve("late", "canary", "v3", v1alpha1.Approve)
	for range 3 {
		w.pass(24 * time.Hour)
	}
	w.change("v3")
	w.pass(time.Hour)
	w.want("a", v1alpha1.PhaseRolling, "canary")
	w.pass(time.Second)
	if got := w.roll(); got != "" || w.out.Status.Phase != v1alpha1.PhaseWaitingForApproval {
		t.Errorf("an approval from three days before the rollout lets %q start, in phase %s: %+v", got, w.out.Status.Phase, w.approvals)
	}
}

// TestDecisionsOlderThanTheRollout: the API server writes when decisions and revisions are created, and the manager when a rollout begins. What releases nodes is void if it is older than the
// rollout, and what holds them is not.
func TestDecisionsOlderThanTheRollout(t *testing.T) {
	for name, test := range map[string]struct {
		decision v1alpha1.Decision
		// created is when the decision was, and revision when the revision was; started is when the manager saw the rollout first.
		created, revision, started time.Duration
		newer                      bool // whether the template returns to an earlier revision
		want                       v1alpha1.ApprovalState
	}{
		"before the template":             {decision: v1alpha1.Approve, created: -2 * time.Second, want: v1alpha1.ApprovalVoid},
		"together with the template":      {decision: v1alpha1.Approve, created: -time.Second, want: v1alpha1.ApprovalValid},
		"a promotion":                     {decision: v1alpha1.Promote, created: -time.Minute, want: v1alpha1.ApprovalVoid},
		"a retry":                         {decision: v1alpha1.Retry, created: -time.Minute, want: v1alpha1.ApprovalVoid},
		"a rejection":                     {decision: v1alpha1.Reject, created: -time.Minute, want: v1alpha1.ApprovalValid},
		"an undo":                         {decision: v1alpha1.UndoRollout, created: -time.Minute, want: v1alpha1.ApprovalValid},
		"the manager is late":             {decision: v1alpha1.Approve, created: time.Minute, started: time.Hour, want: v1alpha1.ApprovalValid},
		"its clock is slow":               {decision: v1alpha1.Approve, created: 50 * time.Second, revision: time.Minute, want: v1alpha1.ApprovalValid},
		"the template returns":            {decision: v1alpha1.Approve, created: time.Minute, started: time.Hour, newer: true, want: v1alpha1.ApprovalVoid},
		"the template returns, and after": {decision: v1alpha1.Approve, created: time.Hour - time.Second, started: time.Hour, newer: true, want: v1alpha1.ApprovalValid},
	} {
		w := newWorld(t, "waves: [{name: canary, nodes: {count: 1}, after: [{type: Approval}]}]")
		w.s.Revisions[1].Created = noon.Add(test.revision)
		if test.newer {
			w.s.Revisions[0].Created = noon.Add(time.Minute)
		}
		w.s.Now = noon.Add(test.started)
		w.approve("early", "canary", "v2", test.decision)
		w.approvals[0].CreationTimestamp = metav1.NewTime(time.Unix(0, int64(noon.Add(test.created))))
		w.pass(500 * time.Millisecond)
		if st := w.approvals[0].Status; st.State != test.want {
			t.Errorf("%s: %+v", name, st)
		}
	}
}

// TestApprovalAfterAClockWasSetBack: when the rollout began is not known, so an approval counts as it did before.
func TestApprovalAfterAClockWasSetBack(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 1}, after: [{type: Approval}]}]")
	w.pass(0)
	w.jump(-time.Hour, time.Second)
	w.approve("yes", "canary", "v2", v1alpha1.Approve)
	w.pass(5 * time.Second)
	if st := w.approvals[0].Status; st.State != v1alpha1.ApprovalValid {
		t.Errorf("%+v", st)
	}
}
