// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

const judged = `
waves: [{name: canary, nodes: {count: 3}, soak: 1m}]
failure: {nodeDeadline: 5m, maxFailedNodes: 1, waitingReasons: [ImagePullBackOff], action: Undo}
`

// fails makes the pod of a node fail.
func (w *world) fails(name string, change func(p *rollout.Pod)) {
	p := &w.node(name).Pods[0]
	p.Ready, p.ReadySince = false, w.s.Now
	change(p)
}

func pulls(p *rollout.Pod)    { p.Waiting = rollout.WaitingFor("ImagePullBackOff") }
func restarts(p *rollout.Pod) { p.Restarts += 4 }
func hangs(*rollout.Pod)      {}

// canary begins the rollout: the three nodes of the first wave get the new revision.
func canary(t *testing.T, spec string) *world {
	t.Helper()
	w := newWorld(t, spec)
	w.pass(0)
	w.want("abc", v1alpha1.PhaseRolling, "canary")
	w.pass(time.Second)
	return w
}

// A revision fails when more nodes of a wave fail than may. It then has a mark, and nodes return to the committed revision.
func TestAFailedRevisionIsUndone(t *testing.T) {
	for name, fail := range map[string]func(p *rollout.Pod){"waiting": pulls, "restarts": restarts} {
		t.Run(name, func(t *testing.T) {
			w := canary(t, judged)
			w.fails("a", fail)
			w.pass(time.Second)
			w.want("", v1alpha1.PhaseSoaking, "canary") // one may fail
			w.fails("b", fail)
			w.pass(time.Second)
			w.want("", v1alpha1.PhaseFailed, "canary")
			w.say("Failed", "The nodes return to the committed revision next.")
			if w.failed[1] == nil || !w.failed[1].Undo || w.failed[1].Wave != "canary" || !strings.Contains(w.failed[1].Message, "2 of 3 nodes failed, and 1 may fail") {
				t.Fatalf("the mark is %+v", w.failed[1])
			}
			w.pass(time.Second)
			w.want("abc", v1alpha1.PhaseUndoing, "canary")
			w.pass(time.Second)
			w.want("", v1alpha1.PhaseFailed, "canary")
			w.say("Failed", "The nodes have returned to the committed revision.")
			for i := range w.s.Nodes {
				if p := &w.s.Nodes[i].Pods[0]; p.Revision != 0 {
					t.Errorf("node %s has revision %d", w.s.Nodes[i].Name, p.Revision)
				}
			}
			st := w.last
			if st.RejectedRevision != "agent-v2" || st.Failure == nil || st.Waves[0].Failed != 2 || st.Waves[0].FailedNodes[0].Name != "a" {
				t.Errorf("the status is %+v", st)
			}
			w.restored = true // by another manager
			w.pass(time.Second)
			w.want("", v1alpha1.PhaseFailed, "canary")
			want := []string{"RolloutStarted", "RolloutWaveStarted", "RolloutSoakStarted", "RolloutSoakRestarted", "RolloutFailed", "RolloutUndone", "RolloutUndoEnded"}
			if got := w.events[:len(want)]; !slices.Equal(got, want) {
				t.Errorf("events %v, want %v", got, want)
			}
		})
	}
}

// TestAFailureWithoutItsStatus: if the status is lost, the mark is enough to hold the revision, also for later managers. A retry rolls it out again and removes the mark; an
// undo by a user lets nodes return.
func TestAFailureWithoutItsStatus(t *testing.T) {
	lost := func(t *testing.T) *world {
		w := undoing(t)
		w.last, w.restored, w.watch = nil, true, nil
		w.pass(time.Second)
		w.want("", v1alpha1.PhaseFailed, "canary")
		w.say("Failed", "annotation everynode.dev/failed of ControllerRevision agent-v2 says that the revision has failed: Wave canary failed")
		if got := w.out.Status.Failure; got == nil || got.Action != v1alpha1.FailurePause || w.out.Status.RejectedRevision != "agent-v2" {
			t.Errorf("the failure is %+v", got)
		}
		w.restored = true
		w.pass(time.Second)
		w.want("", v1alpha1.PhaseFailed, "canary")
		return w
	}
	t.Run("retry", func(t *testing.T) {
		w := lost(t)
		w.approve("again", "", "v2", v1alpha1.Retry)
		w.pass(time.Second)
		w.pass(time.Second)
		w.want("abc", v1alpha1.PhaseRolling, "canary")
		if len(w.out.Status.Blocking) > 0 || w.failed[1] != nil || w.approvals[0].Status.State != v1alpha1.ApprovalValid {
			t.Errorf("blocking %+v, mark %+v, approval %s", w.out.Status.Blocking, w.failed[1], w.approvals[0].Status.State)
		}
	})
	t.Run("undo", func(t *testing.T) {
		w := lost(t)
		w.put("a", 1, true)
		w.approve("undo", "", "v2", v1alpha1.UndoRollout)
		w.pass(time.Second)
		w.pass(time.Second)
		w.want("a", v1alpha1.PhaseUndoing, "canary")
	})
	t.Run("another template", func(t *testing.T) {
		w := lost(t)
		w.change("v3")
		w.pass(time.Second)
		w.want("abc", v1alpha1.PhaseRolling, "canary")
	})
}

// TestAFailureOfAWaveThatIsUnknown: a mark without a status cannot name a wave that the policy does not have.
func TestAFailureOfAWaveThatIsUnknown(t *testing.T) {
	w := newWorld(t, judged)
	w.failed[1] = &everynode.Failure{Number: 2, Undo: true, Wave: "other", Message: strings.Repeat("no", 1000)}
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseFailed, "")
	if message := w.last.Failure.Message; len(message) > 700 {
		t.Errorf("it says %s", message)
	}
}

// TestAMarkWithoutAFailure: where the status reports none, an account that may write ControllerRevisions may have made the mark, so the rollout goes on, and the status
// names the mark.
func TestAMarkWithoutAFailure(t *testing.T) {
	w := canary(t, judged)
	w.failed[1] = &everynode.Failure{Number: 2, Undo: true, Wave: "canary", Message: "no"}
	for range 2 {
		w.pass(time.Second)
		w.want("", v1alpha1.PhaseSoaking, "canary")
		w.say("UnconfirmedFailure", "ControllerRevision agent-v2 ")
		w.restored = true
	}
}

// A node whose pod is not available fails after the deadline, by a clock that users cannot set. The time in which its node is not ready does not count.
func TestNodeDeadline(t *testing.T) {
	w := canary(t, judged)
	w.fails("a", hangs)
	w.fails("b", hangs)
	w.pass(time.Second)
	w.jump(24*time.Hour, time.Minute)
	w.want("", v1alpha1.PhaseRolling, "canary")
	w.node("b").Ready, w.node("b").Since = false, w.s.Now
	w.pass(time.Second)
	w.pass(4 * time.Minute)
	w.want("", v1alpha1.PhaseRolling, "canary") // a has failed, and b would have
	w.node("b").Ready = true
	w.pass(time.Second)
	w.pass(3 * time.Minute)
	w.want("", v1alpha1.PhaseRolling, "canary")
	w.pass(time.Minute + time.Second)
	w.want("", v1alpha1.PhaseFailed, "canary")
}

// A node that stops being ready soon after it got its pod counts.
func TestNodeThatGoesDownAfterItsUpdate(t *testing.T) {
	w := canary(t, judged)
	for _, name := range []string{"a", "b"} {
		w.fails(name, hangs)
		w.node(name).Ready, w.node(name).Since = false, w.s.Now
	}
	w.pass(time.Second)
	w.pass(5 * time.Minute)
	w.want("", v1alpha1.PhaseFailed, "canary")
	if got := w.last.Waves[0].FailedNodes[0].Reason; got != "NodeNotReady" {
		t.Errorf("the reason is %s", got)
	}
}

// Nodes that were broken before the update do not count, also not for the next manager, until they have had an available pod.
func TestNodesThatWereBrokenBefore(t *testing.T) {
	w := newWorld(t, judged)
	for _, name := range []string{"a", "b", "c"} {
		w.fails(name, pulls)
	}
	w.pass(0)
	w.want("abc", v1alpha1.PhaseRolling, "canary")
	for _, name := range []string{"a", "b", "c"} {
		w.fails(name, pulls) // a wave of which no node works shows nothing, so it does not end
	}
	w.pass(time.Second)
	w.pass(10 * time.Minute)
	w.want("", v1alpha1.PhaseRolling, "canary")
	w.restored = true
	w.pass(0)
	w.pass(10 * time.Minute)
	w.want("", v1alpha1.PhaseRolling, "canary")
	if got := strings.Join(w.last.NotReadyBefore, ""); got != "abc" {
		t.Errorf("the status names %q", got)
	}
	for _, name := range []string{"a", "b"} {
		w.put(name, 1, true)
	}
	w.pass(time.Second)
	for _, name := range []string{"a", "b"} {
		w.fails(name, pulls)
	}
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseFailed, "canary")
}

// A manager that ends after it has deleted a broken pod, and before it has created the next one, leaves a node without a pod: the next manager knows from the status
// that the node was broken before.
func TestNodeThatWasBrokenBeforeAndHasNoPod(t *testing.T) {
	w := newWorld(t, strings.Replace(judged, "maxFailedNodes: 1", "maxFailedNodes: 0", 1))
	w.put("a", 0, false)
	w.pass(0)
	if names := w.last.NotReadyBefore; !slices.Equal(names, []string{"a"}) {
		t.Fatalf("the status names %v, want a", names)
	}
	w.node("a").Pods = nil
	w.lead()
	w.pass(time.Second)
	if names := w.last.NotReadyBefore; !slices.Equal(names, []string{"a"}) {
		t.Errorf("the status of the next manager names %v, want a", names)
	}
	w.put("a", 1, false)
	w.pass(time.Second)
	w.pass(10 * time.Minute)
	if w.out.Fail != nil {
		t.Errorf("the revision fails: %s", w.out.Fail.Message)
	}
}

// A revision that fails only during the soak has failed as well, although its pods are available.
func TestFailureDuringTheSoak(t *testing.T) {
	w := canary(t, judged)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	for _, name := range []string{"a", "b"} {
		w.node(name).Pods[0].Restarts = 4
	}
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseFailed, "canary")
}

// With Pause nodes stay as they are, until the template changes or a user retries the revision. Nodes that have failed are judged as if they had just been updated then.
func TestPauseAndRetry(t *testing.T) {
	w := canary(t, strings.Replace(judged, "Undo", "Pause", 1))
	for _, name := range []string{"a", "b"} {
		w.fails(name, pulls)
	}
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseFailed, "canary")
	w.pass(time.Hour)
	w.want("", v1alpha1.PhaseFailed, "canary")
	if !strings.Contains(w.verdicts(), "d:wait-failed") {
		t.Error(w.verdicts())
	}
	w.approve("retry", "", "v2", v1alpha1.Retry)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseRolling, "")
	if w.failed[1] != nil || w.approvals[0].Status.Attempt != 2 {
		t.Fatalf("mark %+v, approval %+v", w.failed[1], w.approvals[0].Status)
	}
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseRolling, "canary")
	w.pass(4*time.Minute + 58*time.Second)
	w.want("", v1alpha1.PhaseRolling, "canary") // a and b still wait for their image
	w.put("a", 1, true)
	w.put("b", 1, true)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	for _, name := range []string{"a", "b"} {
		w.fails(name, pulls)
	}
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseFailed, "canary") // the retry counted once
	w.approve("again", "", "v2", v1alpha1.Retry)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseRolling, "")
}

// A wave that takes longer than its deadline has failed. The time in which nothing may start does not count.
func TestWaveDeadline(t *testing.T) {
	w := canary(t, `
waves: [{name: canary, nodes: {count: 3}}]
failure: {nodeDeadline: 24h, waveDeadline: 10m}
`)
	w.want("defghij", v1alpha1.PhaseRolling, "remaining")
	w.fails("d", hangs)
	w.pass(time.Second)
	w.pass(9 * time.Minute)
	w.policies[0].Suspend = true
	w.pass(0)
	w.pass(time.Hour)
	w.want("", v1alpha1.PhaseSuspended, "remaining")
	w.policies[0].Suspend = false
	w.pass(time.Minute)
	w.want("", v1alpha1.PhaseRolling, "remaining")
	w.pass(time.Minute)
	w.want("", v1alpha1.PhaseFailed, "remaining")
	if w.failed[1].Undo {
		t.Error("the default is to pause")
	}
}

// The waves go on without nodes that were broken before, once they are updated as well.
func TestWavesGoOnWithoutBrokenNodes(t *testing.T) {
	w := newWorld(t, judged)
	w.fails("a", pulls)
	w.pass(0)
	w.want("abc", v1alpha1.PhaseRolling, "canary")
	w.fails("a", pulls)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	if got := w.last.Waves[0]; got.Nodes != 2 || got.Available != 2 {
		t.Errorf("the wave is %+v", got)
	}
	w.pass(time.Minute)
	w.want("defghij", v1alpha1.PhaseRolling, "remaining")
	w.pass(time.Second)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseComplete, "")
}

// Without a committed revision, and where another controller creates the pods, an undo is a pause that says why.
func TestUndoThatIsNotPossible(t *testing.T) {
	w := canary(t, judged)
	w.s.Set.ExternalController = true
	for _, name := range []string{"a", "b"} {
		w.fails(name, pulls)
	}
	w.pass(time.Second)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseFailed, "canary")
	if got := w.last.Blocking[0]; got.Reason != "UndoNotPossible" || !strings.Contains(got.Message, "another controller creates the pods") {
		t.Errorf("it says %+v", got)
	}
}

// A user can ask for the undo of a rollout that has not failed, also without a policy about failures.
func TestUndoByDecision(t *testing.T) {
	w := canary(t, "waves: [{name: canary, nodes: {count: 3}, soak: 1h}]")
	w.approve("undo", "", "v2", v1alpha1.UndoRollout)
	w.pass(time.Second)
	w.want("abc", v1alpha1.PhaseUndoing, "")
	if w.failed[1] == nil || w.approvals[0].Status.Attempt != 1 {
		t.Fatalf("mark %+v, approval %+v", w.failed[1], w.approvals[0].Status)
	}
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseFailed, "")
	w.approve("retry", "", "v2", v1alpha1.Retry)
	w.pass(time.Second)
	w.pass(time.Second)
	w.want("abc", v1alpha1.PhaseRolling, "canary")
}

// An undo ignores windows if the policy says so, begins with the youngest pods, and stops if the committed revision does not work either.
func TestUndoWithinItsLimits(t *testing.T) {
	spec := judged + "undo: {maxUnavailable: 1}\nfreezes: [{from: \"2027-01-15T08:00:02Z\", to: \"2027-01-16T08:00:00Z\"}]\n"
	w := canary(t, spec)
	w.put("b", 1, true) // the youngest one
	w.node("b").Pods[0].Restarts, w.node("c").Pods[0].Restarts = 4, 4
	w.pass(0)
	w.want("", v1alpha1.PhaseFailed, "canary")
	w.pass(2 * time.Second)
	w.want("", v1alpha1.PhaseUndoing, "canary")
	if !strings.Contains(w.verdicts(), "a:wait-freeze") {
		t.Error(w.verdicts())
	}
	w.policies = []*policy.Policy{read(t, strings.Replace(spec, "{maxUnavailable", "{ignoreWindows: true, maxUnavailable", 1))}
	w.pass(time.Second)
	w.want("b", v1alpha1.PhaseUndoing, "canary")
	w.fails("b", hangs)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseUndoing, "canary") // the budget is used up
	w.put("b", 0, true)
	w.pass(time.Second)
	w.want("a", v1alpha1.PhaseUndoing, "canary")
	w.fails("a", pulls)
	w.fails("b", pulls)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseFailed, "canary")
	if got := w.last.Blocking[0]; got.Reason != "UndoFailed" {
		t.Errorf("it says %+v", got)
	}
}

// A pod of the failed revision that vanishes while its node returns is not made again.
func TestPodThatVanishesDuringAnUndo(t *testing.T) {
	w := canary(t, judged)
	for _, name := range []string{"a", "b"} {
		w.fails(name, pulls)
	}
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseFailed, "canary")
	for _, name := range []string{"b", "c"} {
		w.put(name, 0, true)
	}
	w.node("a").Pods, w.node("a").Last = nil, 1
	w.pass(time.Second)
	w.want("a", v1alpha1.PhaseUndoing, "canary")
	if got := w.node("a").Pods[0].Revision; got != 0 {
		t.Errorf("it gets revision %d", got)
	}
}

// A refused create is reported as far as a status has room for it.
func TestCreateThatIsRefused(t *testing.T) {
	w := canary(t, strings.Replace(judged, "maxFailedNodes: 1", "maxFailedNodes: 0", 1))
	n := w.node("a")
	n.Pods, n.Last, n.Refusal = nil, 1, &rollout.Refusal{Denied: true, Message: strings.Repeat("no", 100_000)}
	w.pass(time.Second)
	w.pass(5 * time.Minute)
	if st := w.last; st.Phase != v1alpha1.PhaseFailed || st.Waves[0].FailedNodes[0].Reason != "CreateRefused" || len(st.Waves[0].FailedNodes[0].Message) > 400 {
		t.Errorf("the status is %+v", st)
	}
}

// A node with a broken pod waits until the stored status names it, so that the next manager knows it, too; but not for longer than ten seconds.
func TestBrokenNodesWaitForTheStatus(t *testing.T) {
	w := newWorld(t, judged)
	w.fails("a", pulls)
	w.stored = &v1alpha1.SetStatus{TargetRevision: "agent-v1", TargetNumber: 1}
	w.pass(0)
	w.want("bc", v1alpha1.PhaseRolling, "canary")
	if got := w.last.NotReadyBefore; len(got) != 1 || got[0] != "a" || w.out.Wake == 0 {
		t.Fatalf("the status names %v, wake %d", got, w.out.Wake)
	}
	w.stored = w.last
	w.pass(time.Second)
	w.want("a", v1alpha1.PhaseRolling, "canary")

	w = newWorld(t, judged)
	w.fails("a", pulls)
	w.stored = &v1alpha1.SetStatus{}
	w.pass(0)
	w.want("bc", v1alpha1.PhaseRolling, "canary")
	w.pass(9 * time.Second)
	w.want("", v1alpha1.PhaseRolling, "canary")
	w.pass(time.Second)
	w.want("a", v1alpha1.PhaseRolling, "canary")
}

// A pod that was taken out of use for its update, which begins only in a later pass because writes are slow, is not broken: its node is not held back.
func TestPodsThatWereTakenOutAreNotBroken(t *testing.T) {
	for _, state := range []rollout.Pod{{InPlace: rollout.InPlaceMarked}, {InPlace: rollout.InPlaceArrived}, {Doubtful: true, Ready: true}} {
		w := newWorld(t, judged)
		w.put("a", 0, state.Ready)
		w.node("a").Pods[0].InPlace, w.node("a").Pods[0].Doubtful = state.InPlace, state.Doubtful
		w.stored = &v1alpha1.SetStatus{TargetRevision: "agent-v1", TargetNumber: 1}
		w.pass(0)
		if names := w.last.NotReadyBefore; len(names) != 0 || strings.Contains(w.verdicts(), "a:wait-wave") {
			t.Errorf("%+v: the status names %v, verdicts %s", state, names, w.verdicts())
		}

		// One that was broken before stays so.
		w.node("a").Pods[0].InPlace, w.node("a").Pods[0].Doubtful, w.node("a").Pods[0].Ready = rollout.InPlaceNone, false, false
		w.pass(0)
		w.node("a").Pods[0].InPlace, w.node("a").Pods[0].Doubtful = state.InPlace, state.Doubtful
		w.pass(time.Second)
		if names := w.last.NotReadyBefore; !slices.Equal(names, []string{"a"}) {
			t.Errorf("%+v: the status names %v, want a", state, names)
		}
	}
}

// A retry has its effect once, also if the revision fails again in the first decision after it.
func TestRetryThatFailsAtOnce(t *testing.T) {
	w := canary(t, strings.Replace(judged, "maxFailedNodes: 1", "maxFailedNodes: 0", 1))
	w.policies = []*policy.Policy{read(t, strings.NewReplacer("Undo", "Pause", "maxFailedNodes: 1", "maxFailedNodes: 0").Replace(judged))}
	w.fails("a", pulls)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseFailed, "canary")
	w.approve("retry", "", "v2", v1alpha1.Retry)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseRolling, "")
	w.fails("b", pulls)
	for range 3 {
		w.pass(time.Second)
		w.want("", v1alpha1.PhaseFailed, "canary")
	}
}
