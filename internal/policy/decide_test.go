// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

const threeWaves = `
waves:
- {name: canary, nodes: {count: 1}, soak: 10s, after: [{type: Approval, remindAfter: 1h}]}
- {name: half, nodes: {percent: 50}, soak: 5s}
`

func TestWaves(t *testing.T) {
	w := newWorld(t, threeWaves)
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "canary")
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	if got := w.verdicts(); got != "a:up-to-date b:wait-soak c:wait-soak d:wait-soak e:wait-soak f:wait-wave g:wait-wave h:wait-wave i:wait-wave j:wait-wave" {
		t.Error(got)
	}
	if w.out.Wake != w.s.Now.Add(10*time.Second) || w.out.Status.Next.Action != v1alpha1.ActionEndSoak {
		t.Errorf("wake %v, next %+v", w.out.Wake.Sub(w.s.Now), w.out.Status.Next)
	}
	w.pass(9 * time.Second)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseWaitingForApproval, "canary")
	w.approve("other", "canary", "v9", v1alpha1.Approve)
	w.approve("half", "half", "v2", v1alpha1.Approve)
	w.pass(time.Hour)
	w.want("", v1alpha1.PhaseWaitingForApproval, "canary")
	w.approve("yes", "canary", "v2", v1alpha1.Approve)
	w.pass(0)
	w.want("bcde", v1alpha1.PhaseRolling, "half")
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseSoaking, "half")
	w.pass(5 * time.Second)
	w.want("fghij", v1alpha1.PhaseRolling, "remaining")
	w.pass(0)
	if w.out.Commit != 1 || w.marks[1] != 2 {
		t.Fatalf("commits %d as %d", w.out.Commit, w.marks[1])
	}
	w.pass(0)
	w.want("", v1alpha1.PhaseComplete, "")
	want := "RolloutStarted RolloutWaveStarted RolloutSoakStarted RolloutApprovalNeeded RolloutApprovalMissing RolloutWavePassed RolloutWaveStarted " +
		"RolloutSoakStarted RolloutWavePassed RolloutWaveStarted RolloutWavePassed RolloutCommitted"
	if got := strings.Join(w.events, " "); got != want {
		t.Errorf("events\n%s, want\n%s", got, want)
	}
}

func TestSoakStartsAgain(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 2}, soak: 10s}]")
	w.pass(0)
	w.want("ab", v1alpha1.PhaseRolling, "canary")
	w.pass(0)
	w.pass(9 * time.Second)
	w.put("a", 1, false)
	w.pass(500 * time.Millisecond)
	w.want("", v1alpha1.PhaseRolling, "canary")
	w.put("a", 1, true)
	w.pass(0)
	w.pass(9 * time.Second)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	w.pass(time.Second)
	w.want("cdefghij", v1alpha1.PhaseRolling, "remaining")
	if !slices.Contains(w.events, policy.ReasonSoakRestarted) {
		t.Error(w.events)
	}
}

func TestClocksNeverShortenASoak(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 2}, soak: 10s}]")
	w.pass(0)
	w.roll()
	w.pass(0)
	w.jump(time.Hour, time.Second)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	w.jump(-2*time.Hour, time.Second)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	w.jump(0, 7*time.Second)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	w.restored = true // a new leader, which does not know how long nobody looked
	w.jump(time.Hour, 0)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	w.jump(0, time.Second)
	w.want("cdefghij", v1alpha1.PhaseRolling, "remaining")
}

func TestLostStatusReleasesNothing(t *testing.T) {
	w := newWorld(t, threeWaves)
	w.approve("yes", "canary", "v2", v1alpha1.Approve)
	w.pass(0)
	w.roll()
	w.pass(0)
	w.pass(10 * time.Second)
	w.want("bcde", v1alpha1.PhaseRolling, "half")
	w.last = nil
	w.put("c", 0, true)
	w.pass(time.Hour)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	w.pass(10 * time.Second)
	w.want("c", v1alpha1.PhaseRolling, "half")
}

func TestTemplateChangesInMidRoll(t *testing.T) {
	w := newWorld(t, threeWaves)
	w.approve("yes", "canary", "v2", v1alpha1.Approve)
	w.pass(0)
	w.roll()
	w.pass(0)
	w.pass(10 * time.Second)
	w.want("bcde", v1alpha1.PhaseRolling, "half")
	w.s.Revisions = append(w.s.Revisions, rollout.Revision{Name: "v3", Number: 3, Created: w.s.Now})
	w.s.Set.Update, w.marks = 2, append(w.marks, 0)
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "canary")
	w.pass(0)
	w.pass(10 * time.Second)
	w.want("", v1alpha1.PhaseWaitingForApproval, "canary")
	// Back to v2, which was approved: that was another rollout.
	w.s.Set.Update, w.s.Revisions[1].Number = 1, 4
	w.pass(0)
	w.want("", v1alpha1.PhaseSoaking, "canary") // on b, which has it
	w.pass(10 * time.Second)
	w.want("", v1alpha1.PhaseWaitingForApproval, "canary")
}

func TestUndoByTheUserSkipsWaves(t *testing.T) {
	w := newWorld(t, threeWaves+"windows: [{schedule: '0 0 1 1 *', duration: 1s}]")
	for _, name := range []string{"a", "b", "c"} {
		w.put(name, 1, true)
	}
	w.pass(0)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	w.s.Set.Update, w.s.Revisions[0].Number = 0, 3
	w.pass(0)
	w.want("", v1alpha1.PhaseUndoing, "")
	if b := w.out.Status.Blocking; len(b) != 1 || b[0].Reason != "Window" || b[0].Message != "No window is open, so no node returns: set spec.undo.ignoreWindows to let them return now." || !slices.Contains(w.events, policy.ReasonRolloutUndone) {
		t.Error(b, w.events)
	}
	w.opens("2028-01-01T00:00:00Z")
	w.policies[0].Undo.IgnoreWindows = true
	w.pass(0)
	w.want("abc", v1alpha1.PhaseUndoing, "")
	w.pass(0)
	w.want("", v1alpha1.PhaseComplete, "")
}

func TestWithoutPolicy(t *testing.T) {
	t.Run("never governed", func(t *testing.T) {
		w := newWorld(t, threeWaves)
		w.policies, w.marks = nil, []int64{0, 0}
		if w.pass(0); w.out.Gate != nil || w.out.Status != nil {
			t.Errorf("%+v", w.out)
		}
	})
	t.Run("deleted in the middle", func(t *testing.T) {
		w := newWorld(t, threeWaves)
		w.pass(0)
		w.roll()
		w.policies = nil
		w.node("c").Pods = nil
		w.pass(time.Hour)
		if got := w.roll(); got != "c" || w.node("c").Pods[0].Revision != 0 {
			t.Errorf("rolled %q", got)
		}
		w.pass(time.Hour)
		if !strings.Contains(w.verdicts(), "j:wait-policy") {
			t.Error(w.verdicts())
		}
		w.marks = []int64{0, 0} // a user removes the mark
		w.pass(0)
		if got := w.roll(); got != "bcdefghij" {
			t.Errorf("rolled %q", got)
		}
	})
	t.Run("deleted at rest", func(t *testing.T) {
		w := newWorld(t, threeWaves)
		w.s.Set.Update, w.policies = 0, nil
		if w.pass(0); !w.out.Release || w.marks[0] != 0 {
			t.Error("the mark stays")
		}
	})
	t.Run("not read", func(t *testing.T) {
		w := newWorld(t, threeWaves)
		w.policies, w.unread = nil, true
		w.pass(0)
		if got := w.roll(); got != "" {
			t.Errorf("rolled %q", got)
		}
		w.marks = []int64{0, 0}
		w.pass(0)
		if got := w.roll(); got != "" {
			t.Errorf("without a mark, rolled %q", got)
		}
	})
	t.Run("first policy in mid-roll", func(t *testing.T) {
		w := newWorld(t, threeWaves)
		w.put("b", 1, true)
		w.marks = []int64{0, 0}
		w.pass(0)
		if got := w.roll(); got != "" || w.marks[0] != 1 {
			t.Errorf("rolled %q before the mark was written, marks %v", got, w.marks)
		}
		w.pass(0)
		w.want("", v1alpha1.PhaseSoaking, "canary") // on b, which has the revision
	})
}

func TestConflictAndSuspension(t *testing.T) {
	w := newWorld(t, threeWaves)
	w.policies = append(w.policies, read(t, "joiningNodes: Latest"))
	w.pass(0)
	w.want("", v1alpha1.PhaseStalled, "")
	if !strings.Contains(w.verdicts(), "a:wait-conflict") {
		t.Error(w.verdicts())
	}
	w = newWorld(t, "suspend: true")
	w.pass(0)
	w.want("", v1alpha1.PhaseSuspended, "remaining")
	w.policies = []*policy.Policy{read(t, "windows: [{schedule: nonsense, duration: 1h}]")}
	w.pass(0)
	w.want("", v1alpha1.PhaseStalled, "")
	w.s.Set.Strategy = rollout.OnDelete
	w.pass(0)
	if w.out.Status.Enforcement != v1alpha1.EnforcementNone || w.out.Status.Phase != v1alpha1.PhaseStalled || w.out.Gate != nil {
		t.Errorf("%+v", w.out.Status)
	}
}

func TestRejectAndPromote(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 1}, soak: 1h}]")
	w.pass(0)
	w.roll()
	w.pass(0)
	w.approve("now", "canary", "v2", v1alpha1.Promote)
	w.pass(0)
	if w.out.Status.Wave != "remaining" || w.out.Status.Waves[0].ApprovedBy != "ada" {
		t.Fatalf("%+v", w.out.Status)
	}
	w.approve("no", "", "v2", v1alpha1.Reject)
	w.pass(0)
	w.want("", v1alpha1.PhaseRejected, "")
	if w.out.Status.RejectedRevision != "agent-v2" {
		t.Errorf("%+v", w.out.Status)
	}
	w.approvals = w.approvals[:1]
	w.pass(0)
	w.want("bcdefghij", v1alpha1.PhaseRolling, "remaining")
}

func TestJoiningNodes(t *testing.T) {
	for spec, revision := range map[string]int{"": 0, "joiningNodes: Latest": 1} {
		w := newWorld(t, threeWaves+spec)
		w.pass(0)
		w.want("a", v1alpha1.PhaseRolling, "canary")
		w.join("A", w.s.Now.Add(time.Second), 0) // sorts first, and takes no place of the canary
		w.node("A").Pods = nil
		w.pass(2 * time.Second)
		w.want("A", v1alpha1.PhaseSoaking, "canary")
		if got := w.node("A").Pods[0].Revision; got != revision {
			t.Errorf("%q: it got revision %d", spec, got)
		}
	}
}

func TestUnreachableNodes(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 2}}]")
	w.node("a").Ready, w.node("a").Since = false, noon
	w.put("b", 1, true)
	w.s.Set.MaxUnavailable.Value = 0
	w.node("a").Blocked = "down"
	w.pass(time.Hour)
	w.want("", v1alpha1.PhaseRolling, "canary")
	w.policies = []*policy.Policy{read(t, "{unreachableAfter: 2h, waves: [{name: canary, nodes: {count: 2}}]}")}
	w.pass(time.Minute)
	if w.out.Status.Wave != "canary" || w.out.Wake != noon.Add(2*time.Hour) {
		t.Errorf("%+v, wake %v", w.out.Status, w.out.Wake.Sub(noon))
	}
	w.pass(time.Hour)
	if w.out.Status.Wave != "remaining" || w.out.Status.Waves[0].Nodes != 1 {
		t.Errorf("%+v", w.out.Status)
	}
	w.last = nil
	w.node("b").Ready, w.node("b").Since = false, noon
	if w.pass(time.Hour); w.out.Status.Wave != "canary" {
		t.Errorf("a wave without any reachable node passes: %+v", w.out.Status)
	}
}

func TestPace(t *testing.T) {
	w := newWorld(t, "pace: {maxUpgrading: 20%}")
	w.pass(0)
	w.want("ab", v1alpha1.PhaseRolling, "remaining")
	w = newWorld(t, "pace: {minTimeBetween: 10s}")
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "remaining")
	start := *w.out.Status
	w.last = &start
	w.pass(0)
	w.last = nil // a new leader sees it by the pods, which show whole seconds
	w.pass(10 * time.Second)
	w.want("", v1alpha1.PhaseRolling, "remaining")
	w.pass(time.Second)
	w.want("b", v1alpha1.PhaseRolling, "remaining")
}

// TestAClockThatJumpsAhead shortens neither the time between updates nor the one after which a node that is not ready is left out.
func TestAClockThatJumpsAhead(t *testing.T) {
	w := newWorld(t, "pace: {minTimeBetween: 10s}")
	w.pass(0)
	start := *w.out.Status
	start.LastStart = policy.Moment(w.s.Now)
	w.put("a", 1, true)
	w.last = &start
	for _, wall := range []time.Duration{time.Second, time.Hour, -time.Minute} {
		w.jump(wall, time.Second)
		w.want("", v1alpha1.PhaseRolling, "remaining")
	}
	w.pass(7 * time.Second)
	w.want("b", v1alpha1.PhaseRolling, "remaining")

	w = newWorld(t, "{unreachableAfter: 2h, waves: [{name: canary, nodes: {count: 2}}]}")
	w.put("b", 1, true)
	w.pass(0)
	w.node("a").Ready, w.node("a").Since, w.node("a").Blocked = false, w.s.Now, "down"
	w.pass(time.Minute)
	if w.jump(3*time.Hour, time.Minute); w.out.Status.Wave != "canary" {
		t.Errorf("after a jump of three hours the node is left out: %+v", w.out.Status)
	}
	if w.pass(2 * time.Hour); w.out.Status.Wave != "remaining" {
		t.Errorf("%+v", w.out.Status)
	}
}

// TestNextActionWithAPace: the next action is the start of an update only if an update may start then.
func TestNextActionWithAPace(t *testing.T) {
	const canary = "pace: {minTimeBetween: 1m}, waves: [{name: canary, nodes: {count: 1}, soak: 1h"
	for name, c := range map[string]struct {
		spec string
		want v1alpha1.Action
	}{
		"within the wave":            {"{pace: {minTimeBetween: 1m}}", v1alpha1.ActionStartUpdate},
		"during the soak":            {"{" + canary + "}]}", v1alpha1.ActionEndSoak},
		"before the window opens":    {"{pace: {minTimeBetween: 1m}, windows: [{schedule: '0 0 * * *', duration: 1m}]}", v1alpha1.ActionOpenWindow},
		"before the end of a freeze": {"{pace: {minTimeBetween: 1m}, freezes: [{from: 2020-01-01T00:00:00Z, to: 2100-01-01T00:00:00Z}]}", v1alpha1.ActionEndFreeze},
		"while suspended":            {"{suspend: true, pace: {minTimeBetween: 1m}}", ""},
	} {
		w := newWorld(t, c.spec)
		w.put("a", 1, true)
		w.last = nil // the last start is that of the pod
		w.pass(time.Second)
		got := v1alpha1.Action("")
		if next := w.out.Status.Next; next != nil {
			got = next.Action
		}
		if got != c.want {
			t.Errorf("%s: the next action is %q, want %q", name, got, c.want)
		}
	}
}

func TestSelectorsAndSpread(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {selector: {matchLabels: {canary: 'yes'}}}}, {name: three, nodes: {count: 3, spreadBy: [zone]}}]")
	w.pass(0)
	w.want("", v1alpha1.PhaseStalled, "canary")
	w.labels["d"] = map[string]string{"canary": "yes"}
	for name, zone := range map[string]string{"a": "1", "b": "1", "c": "1", "e": "2", "f": "3"} {
		w.labels[name] = map[string]string{"zone": zone}
	}
	w.pass(0)
	w.want("d", v1alpha1.PhaseRolling, "canary")
	w.pass(0)
	w.want("aef", v1alpha1.PhaseRolling, "three")
}

func TestWindowGatesStartsOnly(t *testing.T) {
	at := time.Unix(0, int64(noon)).UTC()
	w := newWorld(t, fmt.Sprintf("windows: [{schedule: '%d %d * * *', duration: 10m}]", at.Minute(), at.Add(-time.Hour).Hour()))
	w.pass(0)
	w.want("", v1alpha1.PhaseWaitingForWindow, "remaining")
	if next := w.out.Status.Next; next == nil || next.Action != v1alpha1.ActionOpenWindow || w.out.Wake == 0 {
		t.Fatalf("%+v", next)
	}
	w.pass(w.out.Wake.Sub(w.s.Now))
	w.want("abcdefghij", v1alpha1.PhaseRolling, "remaining")
}

// TestLostMark: a ControllerRevision that is deleted in the middle of a rollout takes its mark along, and releases nothing.
// A rollout without nodes in waves passes them all at once. Nodes that only keep their pod wait for the end of a freeze or a suspension, like all others.
func TestNodesOutsideWavesWaitForTheWindow(t *testing.T) {
	for spec, reason := range map[string]string{
		"freezes: [{from: 2020-01-01T00:00:00Z, to: 2100-01-01T00:00:00Z}]": "wait-freeze",
		"windows: [{schedule: '0 0 29 2 *', duration: 1m}]":                 "wait-window",
		"suspend: true": "wait-suspended",
	} {
		w := newWorld(t, spec)
		for i := range w.s.Nodes {
			w.s.Nodes[i].Fit = rollout.MayStay
		}
		w.pass(time.Second)
		if w.out.Commit >= 0 || !strings.Contains(w.verdicts(), "a:"+reason) {
			t.Errorf("%s: commit %d, verdicts %s", spec, w.out.Commit, w.verdicts())
		}
		w.policies = []*policy.Policy{read(t, "waves: [{name: rest}]")}
		w.pass(time.Second)
		if w.out.Commit != 1 {
			t.Errorf("%s: commit %d after its end", spec, w.out.Commit)
		}
	}
}

func TestLostMark(t *testing.T) {
	w := newWorld(t, threeWaves)
	for _, name := range strings.Split("abcdefgh", "") {
		w.put(name, 1, true)
	}
	w.pass(0)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	w.marks = []int64{0, 0}
	w.pass(0)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	if w.marks[0] != 1 {
		t.Errorf("marks %v", w.marks)
	}
}

func TestTighten(t *testing.T) {
	for _, c := range []struct {
		spec  string
		surge bool
		want  int
	}{{"pace: {maxUnavailable: 2}", false, 2}, {"pace: {maxUnavailable: 30%}", false, 3}, {"pace: {maxUnavailable: 100%}", false, 5}, {"{}", false, 5}, {"pace: {maxUnavailable: 2}", true, 5}} {
		w := newWorld(t, c.spec)
		w.s.Set.MaxUnavailable = rollout.Quantity{Value: 5}
		if c.surge {
			w.s.Set.MaxSurge = rollout.Quantity{Value: 1}
		}
		w.policies[0].Tighten(&w.s)
		if got := w.s.Set.MaxUnavailable.Of(10); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// TestPodThatFailedWhileNobodyLooked: a new leader sees that a pod of the canary has become ready after the soak began.
func TestPodThatFailedWhileNobodyLooked(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 1}, soak: 10s}]")
	w.pass(0)
	w.roll()
	w.pass(0)
	w.pass(9 * time.Second)
	w.put("a", 1, true)
	w.restored = true
	w.jump(time.Second, 0)
	w.pass(9 * time.Second)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	w.pass(time.Second)
	w.want("bcdefghij", v1alpha1.PhaseRolling, "remaining")
}
