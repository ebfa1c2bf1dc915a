// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
)

// TestRejectedUnderAnotherPolicy: a policy that takes over from another one does not roll out the revision that a user has rejected, until the rejection is deleted.
func TestRejectedUnderAnotherPolicy(t *testing.T) {
	renamed := read(t, "waves: [{name: some, nodes: {count: 3}}]")
	renamed.Name = "all-agents"
	reject := func(w *world) {
		w.approve("no", "", "v2", v1alpha1.Reject)
		w.pass(time.Second)
		w.want("", v1alpha1.PhaseRejected, "")
	}
	conflict := func(w *world) {
		before := w.last
		w.policies = append([]*policy.Policy{renamed}, w.policies...)
		w.pass(time.Second)
		w.want("", v1alpha1.PhaseStalled, "")
		w.last = policy.InConflict(w.last, nil, before)
	}
	for name, replace := range map[string]func(w *world){
		"both applied": func(w *world) {
			reject(w)
			conflict(w)
		},
		"the first one was deleted before": func(w *world) {
			reject(w)
			w.last = nil
		},
		"rejected while both applied": func(w *world) {
			conflict(w)
			w.approve("no", "", "v2", v1alpha1.Reject)
			w.pass(time.Second)
			w.want("", v1alpha1.PhaseStalled, "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "waves: [{name: canary, nodes: {count: 1}, soak: 10m}]")
			w.pass(0)
			w.want("a", v1alpha1.PhaseRolling, "canary")
			replace(w)
			w.policies = []*policy.Policy{renamed}
			w.lead()
			for range 3 {
				w.pass(time.Second)
				w.want("", v1alpha1.PhaseRejected, "")
			}
			if got := w.last.Blocking[0].Message; !strings.Contains(got, "delete rolloutapproval/no, which names the policy agents.") {
				t.Error(got)
			}
			w.approvals = nil
			w.pass(time.Second)
			w.want("bc", v1alpha1.PhaseRolling, "some")
		})
	}
}

// TestOtherDecisionsUnderAnotherPolicy: an approval of a wave counts only for the policy that it names, and a rejection that names another policy gets no state while it is not about the
// revision of the template.
func TestOtherDecisionsUnderAnotherPolicy(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 1}, after: [{type: Approval}]}]")
	w.policies[0].Name = "all-agents"
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "canary")
	w.approve("yes", "canary", "v2", v1alpha1.Approve)
	w.approve("no", "", "v1", v1alpha1.Reject)
	for range 3 {
		w.pass(time.Second)
		w.want("", v1alpha1.PhaseWaitingForApproval, "canary")
	}
	for _, a := range w.approvals {
		if a.Status.State != "" {
			t.Errorf("%s: %+v", a.Name, a.Status)
		}
	}
}

// loseStatus loses the status, and gives the revision of the template another number: another account has created a revision with a high number, and has deleted it.
func loseStatus(w *world) {
	w.s.Revisions[1].Number, w.last = 1001, nil
	w.lead()
}

// TestRejectedWithoutTheStatus: a rejection keeps nodes from its revision whatever number that gets, also if the status of the policy is lost, or another policy takes over.
func TestRejectedWithoutTheStatus(t *testing.T) {
	for name, now := range map[string]string{"the status is lost": "agents", "another policy takes over": "all-agents"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "waves: [{name: canary, nodes: {count: 2}, soak: 10m}]")
			w.pass(0)
			w.want("ab", v1alpha1.PhaseRolling, "canary")
			w.put("b", 0, true)
			w.approve("no", "", "v2", v1alpha1.Reject)
			w.pass(time.Second)
			w.want("", v1alpha1.PhaseRejected, "")
			w.policies[0].Name = now
			loseStatus(w)
			for range 3 {
				w.pass(time.Second)
				w.want("", v1alpha1.PhaseRejected, "")
			}
			w.lead() // the next manager has the status
			w.pass(time.Second)
			w.want("", v1alpha1.PhaseRejected, "")
			w.approvals = nil
			w.pass(time.Second)
			w.want("b", v1alpha1.PhaseRolling, "canary")
		})
	}
}

// TestUndoneWithoutTheStatus is the same for an undo, which a later retry ends.
func TestUndoneWithoutTheStatus(t *testing.T) {
	undone := func(t *testing.T) *world {
		t.Helper()
		w := newWorld(t, "waves: [{name: canary, nodes: {count: 1}, soak: 10m}]")
		w.pass(0)
		w.want("a", v1alpha1.PhaseRolling, "canary")
		w.approve("back", "", "v2", v1alpha1.UndoRollout)
		w.pass(time.Second)
		w.want("a", v1alpha1.PhaseUndoing, "")
		w.pass(time.Second)
		w.want("", v1alpha1.PhaseFailed, "")
		return w
	}
	t.Run("undone", func(t *testing.T) {
		w := undone(t)
		w.failed[1] = nil // that mark was lost too
		loseStatus(w)
		for range 3 {
			w.pass(time.Second)
			w.want("", v1alpha1.PhaseFailed, "")
		}
	})
	t.Run("retried", func(t *testing.T) {
		w := undone(t)
		w.approve("again", "", "v2", v1alpha1.Retry)
		w.pass(time.Second)
		w.pass(time.Second)
		w.want("a", v1alpha1.PhaseRolling, "canary")
		w.failed[1] = nil
		loseStatus(w)
		w.pass(time.Second)
		w.want("", v1alpha1.PhaseSoaking, "canary")
	})
}

// TestVoidApprovals: an approval that never counts says why.
func TestVoidApprovals(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 1}, after: [{type: Approval}]}]")
	w.pass(0)
	w.roll()
	w.approve("old", "canary", "v1", v1alpha1.Approve)
	w.approve("now", "canary", "v2", v1alpha1.Approve)
	w.pass(time.Second)
	for range 3 {
		w.pass(time.Second)
		w.roll()
	}
	w.want("", v1alpha1.PhaseComplete, "")
	w.approve("late", "canary", "v2", v1alpha1.Approve)
	w.pass(time.Second)
	for i, want := range []string{"The decision is about revision agent-v1, and the template of the daemon set describes agent-v2.", "", "Revision agent-v2 is committed already, so there is no rollout to decide about."} {
		st := w.approvals[i].Status
		if void := st.State == v1alpha1.ApprovalVoid; void != (want != "") || !strings.HasPrefix(st.Message, want) || !void && st.Message != "" {
			t.Errorf("%s: %+v", w.approvals[i].Name, st)
		}
	}
}

// TestRejectedAfterAFailure: a retry has no effect while the rejection exists, so the message names that one first.
func TestRejectedAfterAFailure(t *testing.T) {
	w := canary(t, strings.Replace(judged, "action: Undo", "action: Pause", 1))
	w.fails("a", pulls)
	w.fails("b", pulls)
	w.pass(time.Second)
	w.say("Failed", "Change the template, or create a RolloutApproval with the decision Retry.")
	w.approve("no", "", "v2", v1alpha1.Reject)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseFailed, "canary")
	w.say("Failed", "Change the template, or delete rolloutapproval/no with the rejection and then create one with the decision Retry.")
}
