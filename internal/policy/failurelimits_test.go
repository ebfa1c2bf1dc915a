// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// judgedStrictly is a policy for which one failed node is enough.
func judgedStrictly() string {
	return strings.Replace(judged, "maxFailedNodes: 1", "maxFailedNodes: 0", 1)
}

// An undo stops for all nodes when the committed revision does not work either, also where the budget would allow more.
func TestUndoThatFailsStartsNothing(t *testing.T) {
	w := canary(t, judgedStrictly()+"undo: {maxUnavailable: 2}\n")
	w.fails("a", pulls)
	w.pass(0)
	w.want("", v1alpha1.PhaseFailed, "canary")
	w.pass(time.Second)
	before := w.roll()
	if len(before) != 2 {
		t.Fatalf("the undo begins on %q", before)
	}
	w.fails(before[:1], pulls)
	w.node(before[:1]).Pods[0].Revision = 0
	w.pass(time.Second)
	if rest := w.have(1); len(rest) != 1 || !strings.Contains(w.verdicts(), rest+":wait-failed") {
		t.Errorf("%q have the bad revision, %s", rest, w.verdicts())
	}
	w.want("", v1alpha1.PhaseFailed, "canary")
}

// A node that was broken before counts again when it has had an available pod of the revision, also where pods are changed in place.
func TestNodeThatWasBrokenBeforeCountsAgain(t *testing.T) {
	w := newWorld(t, judgedStrictly())
	w.s.Set.InPlace = true
	w.fails("a", pulls)
	w.node("a").Pods[0].Revision = 0
	w.pass(time.Second)
	w.pass(time.Second)
	w.put("a", 1, true)
	w.pass(time.Second)
	w.fails("a", pulls)
	w.pass(time.Second)
	if f := w.last.Failure; f == nil || f.Wave != "canary" {
		t.Errorf("failure %+v, phase %s, not ready before %q", f, w.last.Phase, w.last.NotReadyBefore)
	}
}

// The time in which a pod waits for its image does not count. Where its node does not say what the pod waits for, this ends after some time; and a pull that fails counts.
func TestTheTimeOfAPullDoesNotCount(t *testing.T) {
	for name, c := range map[string]struct {
		pull  rollout.Pull
		wait  string
		phase rollout.Phase
		lasts time.Duration // until the node fails
	}{
		"pulls":           {pull: rollout.Pulls, lasts: 0},
		"may pull":        {pull: rollout.MayPull, lasts: 35 * time.Minute},
		"does not pull":   {pull: rollout.NoPull, lasts: 5 * time.Minute},
		"the pull failed": {pull: rollout.Pulls, wait: "ErrImagePull", lasts: 5 * time.Minute},
		"runs":            {pull: rollout.MayPull, phase: rollout.Running, lasts: 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			w := canary(t, strings.Replace(judgedStrictly(), "waitingReasons: [ImagePullBackOff], ", "", 1))
			w.fails("a", func(p *rollout.Pod) { p.Pull, p.Waiting, p.Phase = c.pull, rollout.WaitingFor(c.wait), c.phase })
			w.pass(time.Second)
			for w.s.Now < noon.Add(3*time.Hour) && w.last.Failure == nil {
				if c.lasts > 0 && w.s.Now > noon.Add(c.lasts+time.Minute+2*time.Second) {
					t.Fatalf("it has not failed after %s", w.s.Now.Sub(noon))
				}
				w.pass(time.Minute)
			}
			if early := w.s.Now < noon.Add(c.lasts); early || (w.last.Failure == nil) != (c.lasts == 0) {
				t.Errorf("after %s, failure %+v", w.s.Now.Sub(noon), w.last.Failure)
			}
		})
	}
}

// What comes after the pull counts from then on. The next pod may pull as long again.
func TestTheTimeAfterAPullCounts(t *testing.T) {
	w := canary(t, judgedStrictly())
	starting := func(p *rollout.Pod) { p.Pull, p.Phase = rollout.MayPull, rollout.Pending }
	w.fails("a", starting)
	w.pass(time.Second)
	w.pass(31 * time.Minute)
	w.pass(time.Minute)
	w.put("a", 1, false)
	w.node("a").Pods[0].UID = "a-2"
	w.fails("a", starting)
	w.pass(time.Second)
	w.pass(29 * time.Minute)
	w.node("a").Pods[0].Phase = rollout.Running
	w.pass(time.Second)
	w.pass(3 * time.Minute) // and one minute with the first pod
	w.want("", v1alpha1.PhaseRolling, "canary")
	w.pass(time.Minute)
	w.want("", v1alpha1.PhaseFailed, "canary")
}

const flapping = `
waves: [{name: canary, nodes: {count: 3}, soak: 1m, after: [{type: Approval}]}]
failure: {nodeDeadline: 5m, waveDeadline: 30m}
`

// flap lets the pod of node a be unavailable for four minutes, and then available for a moment.
func (w *world) flap(moment time.Duration) {
	w.fails("a", hangs)
	for range 4 {
		w.pass(time.Minute)
	}
	p := &w.node("a").Pods[0]
	p.Ready, p.ReadySince = true, w.s.Now
	w.pass(time.Second)
	w.pass(moment)
}

// Pods that become available for a moment again and again do not keep a wave for longer than its deadline, also with other managers in between. The soak does not count.
func TestWaveDeadlineOfPodsThatComeAndGo(t *testing.T) {
	for name, c := range map[string]struct {
		moment time.Duration
		lead   bool
	}{"often": {30 * time.Second, false}, "other managers": {30 * time.Second, true}, "long soaks": {59 * time.Second, false}} {
		t.Run(name, func(t *testing.T) {
			w := canary(t, flapping)
			for range 9 { // of the four minutes, the first one was still the soak
				if w.flap(c.moment); w.last.Phase != v1alpha1.PhaseSoaking {
					t.Fatalf("phase %s after %v", w.last.Phase, w.last.Waves[0].Rolled)
				}
				w.restored = c.lead
			}
			for range 3 {
				w.flap(c.moment)
			}
			w.want("", v1alpha1.PhaseFailed, "canary")
			if got := w.last.Failure.Message; got != "Wave canary failed: after 30m0s, 2 of 3 nodes have an available pod." {
				t.Errorf("it says %s", got)
			}
		})
	}
}

// The time of an outage counts too if no decision is made between its beginning and its end.
func TestWaveDeadlineOfOutagesWithoutDecisions(t *testing.T) {
	w := canary(t, flapping)
	outages := 0
	for ; outages < 20 && w.last.Phase != v1alpha1.PhaseFailed; outages++ {
		w.fails("a", hangs)
		w.pass(time.Second)
		p := &w.node("a").Pods[0]
		p.Ready, p.ReadySince = true, w.s.Now.Add(4*time.Minute)
		w.pass(4 * time.Minute)
		w.pass(30 * time.Second)
	}
	if w.want("", v1alpha1.PhaseFailed, "canary"); outages != 9 {
		t.Errorf("failed after %d outages of four minutes, want 9, of which the last one only begins", outages)
	}
}

// When the wave has soaked, its deadline starts again.
func TestWaveDeadlineAfterTheSoak(t *testing.T) {
	w := canary(t, flapping)
	for range 30 {
		w.flap(time.Minute)
	}
	w.want("", v1alpha1.PhaseWaitingForApproval, "canary")
}

// Nodes that join one after the other do not use the deadline of a wave up.
func TestWaveDeadlineWhileNodesJoin(t *testing.T) {
	w := newWorld(t, strings.Replace(flapping, "count: 3", "selector: {}", 1))
	w.pass(0)
	w.roll()
	w.pass(time.Second)
	for _, name := range strings.Split("klmnopqrstuvwxyz", "") {
		w.joins(name)
		w.pass(time.Second)
		w.roll()
		w.fails(name, hangs)
		for range 4 {
			w.pass(time.Minute)
		}
		w.put(name, 1, true)
		w.pass(time.Second)
	}
	w.want("", v1alpha1.PhaseSoaking, "canary")
}

// The status keeps how a container of the pod ended, also when the pod is gone after the undo.
func TestTheExitCodeOfAFailedNode(t *testing.T) {
	w := canary(t, judgedStrictly())
	w.fails("a", func(p *rollout.Pod) { p.Restarts, p.Ended, p.ExitCode = 4, rollout.EndingFor("OOMKilled"), 137 })
	for range 3 {
		w.pass(time.Second)
		w.roll()
	}
	failed := w.last.Waves[0].FailedNodes
	if len(failed) != 1 || failed[0].ExitCode == nil || *failed[0].ExitCode != 137 || failed[0].ExitReason != "OOMKilled" || w.have(1) != "" {
		t.Errorf("%+v, %q have the revision", failed, w.have(1))
	}
}

// The next process measures the analyses of a wave again before it waits for the approval: that is the same wait.
func TestNoticeOfAWaitThatIsMeasuredAgain(t *testing.T) {
	w := observed(t, strings.Replace(analysed, "soak: 10m,", "soak: 1m, after: [{type: Approval}],", 1))
	w.answer("errors", passes)
	w.pass(time.Second)
	w.answer("errors", passes)
	w.pass(time.Minute)
	first := w.notices[len(w.notices)-1]
	w.noticed()
	w.restored = true
	w.pass(time.Minute)
	w.wantNotices("soaking/canary")
	w.answer("errors", passes)
	w.pass(time.Minute)
	w.answer("errors", passes)
	w.pass(time.Minute)
	again := w.notices[len(w.notices)-1]
	w.wantNotices("awaiting-approval/canary")
	if first.Type != again.Type || first.ID() != again.ID() {
		t.Errorf("%+v has another identity than %+v", again, first)
	}
}

// Failed nodes count in their own wave: as many as may fail in each of two waves are no failure.
func TestFailedNodesCountInTheirWave(t *testing.T) {
	w := canary(t, judged)
	w.pass(2 * time.Minute)
	w.want("defghij", v1alpha1.PhaseRolling, "remaining")
	w.fails("a", pulls)
	w.fails("d", pulls)
	w.fails("e", hangs)
	w.pass(time.Second)
	if w.last.Failure != nil || w.last.Waves[0].Failed != 1 || w.last.Waves[1].Failed != 1 {
		t.Errorf("failure %+v, waves %+v", w.last.Failure, w.last.Waves)
	}
	w.fails("e", pulls)
	w.pass(time.Second)
	if f := w.last.Failure; f == nil || f.Wave != "remaining" {
		t.Errorf("failure %+v", f)
	}
}

// A node that joins gets no pod of a revision that has failed, or was rejected, also with joiningNodes: Latest.
func TestJoiningNodesDoNotGetAFailedRevision(t *testing.T) {
	for name, turns := range map[string]func(w *world){
		"failed": func(w *world) {
			w.fails("a", pulls)
			w.fails("b", pulls)
			w.pass(time.Second)
			w.want("", v1alpha1.PhaseFailed, "canary")
			w.pass(time.Second)
			w.want("abc", v1alpha1.PhaseUndoing, "canary")
			w.pass(time.Second)
			w.want("", v1alpha1.PhaseFailed, "canary")
		},
		"rejected": func(w *world) {
			w.approve("no", "", "v2", v1alpha1.Reject)
			w.pass(time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := canary(t, judged+"joiningNodes: Latest\n")
			turns(w)
			w.join("k", w.s.Now, 0)
			w.node("k").Pods = nil
			w.pass(time.Second)
			if w.roll(); len(w.node("k").Pods) != 1 || w.node("k").Pods[0].Revision != 0 {
				t.Errorf("the node that joins gets %+v, want a pod of v1", w.node("k").Pods)
			}
		})
	}
}

// Each container that a change in place restarts is restarted once for that: only what follows counts.
func TestRestartsOfAChangeInPlaceDoNotCount(t *testing.T) {
	for restarts, fails := range map[uint16]bool{7: false, 10: false, 11: true} {
		w := newWorld(t, judgedStrictly())
		w.s.Set.InPlace = true
		w.s.Revisions[1].Created = w.s.Now
		w.put("a", 1, true)
		p := &w.node("a").Pods[0]
		p.Created, p.InPlace, p.Recreates, p.Restarts = w.s.Now.Add(-time.Hour), rollout.InPlacePatched, 5, 2
		w.pass(time.Second)
		p = &w.node("a").Pods[0]
		p.InPlace, p.Recreates, p.Restarts = rollout.InPlaceNone, 0, restarts
		w.pass(time.Second)
		if failed := w.last.Failure != nil; failed != fails {
			t.Errorf("with %d restarts, of which 2 were before and 5 are the change: failure %+v", restarts, w.last.Failure)
		}
	}
}

// Nodes that were broken before their update count in the pace until they have had nodeDeadline to become available: otherwise all of them would be updated at once,
// and if they never become available, they do not hold the others for ever.
func TestThePaceOfBrokenNodes(t *testing.T) {
	for _, skips := range []bool{false, true} { // AdvancedRollingUpdate leaves out nodes that are not ready, and these are
		t.Run(fmt.Sprint(skips), func(t *testing.T) { paceOfBrokenNodes(t, skips) })
	}
}

func paceOfBrokenNodes(t *testing.T, skips bool) {
	w := newWorld(t, "pace: {maxUpgrading: 2}\nfailure: {nodeDeadline: 1m}")
	w.s.Set.Unreachable.Skip = skips
	for i := range w.s.Nodes {
		w.put(w.s.Nodes[i].Name, 0, false)
	}
	w.pass(0)
	w.pass(time.Second) // the status that names them is stored
	stillBroken := func(want string) {
		t.Helper()
		got := w.roll()
		if got != want {
			t.Errorf("updates start on %q, want %q", got, want)
		}
		for _, name := range strings.Split(got, "") {
			if name != "" {
				w.put(name, 1, false)
			}
		}
	}
	stillBroken("ab")
	w.pass(time.Second)
	stillBroken("")
	w.pass(59 * time.Second)
	stillBroken("")
	if w.out.Wake != w.s.Now.Add(time.Second) {
		t.Errorf("the next look is at %v, want in a second", w.out.Wake)
	}
	w.pass(time.Second)
	stillBroken("cd")
}

// The status has when the revision failed, also later and for the next process.
func TestFailureHasItsTime(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 2}}]\nfailure: {action: Pause}\n")
	w.pass(time.Second)
	w.roll()
	w.put("a", 1, false)
	w.pass(time.Second)
	w.pass(11 * time.Minute)
	at := w.s.Now
	for range 3 {
		if f := w.last.Failure; f == nil || f.At == nil || f.At.UnixNano() != int64(at) {
			t.Fatalf("failure %+v, want it at %v", f, at)
		}
		w.restored = true
		w.pass(time.Hour)
	}
}

// The message about a node whose pod restarts too often has the number of restarts, also if it is one, and the field with what is allowed.
func TestMessageOfRestarts(t *testing.T) {
	for restarts, want := range map[uint16]string{
		1: "A container of pod a-1 was restarted once, and spec.failure.maxRestarts is 0.",
		2: "A container of pod a-1 was restarted 2 times, and spec.failure.maxRestarts is 0.",
	} {
		w := newWorld(t, strings.Replace(judgedStrictly(), "maxFailedNodes", "maxRestarts: 0, maxFailedNodes", 1))
		w.s.Revisions[1].Created = w.s.Now
		w.put("a", 1, true)
		w.pass(time.Second)
		w.node("a").Pods[0].Name, w.node("a").Pods[0].Restarts = "a-1", restarts
		w.pass(time.Second)
		if failed := w.last.Waves[0].FailedNodes; len(failed) != 1 || failed[0].Message != want {
			t.Errorf("after %d restarts: %+v, want %s", restarts, failed, want)
		}
	}
}

// A suspended policy also holds an undo, until it is resumed.
func TestASuspendedPolicyHoldsAnUndo(t *testing.T) {
	w := canary(t, judgedStrictly()+"undo: {ignoreWindows: true}\n")
	w.fails("a", pulls)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseFailed, "canary")
	w.policies[0].Suspend = true
	for range 2 {
		w.pass(time.Second)
		w.want("", v1alpha1.PhaseUndoing, "canary")
		w.say("Suspended", "set spec.suspend to false to continue")
	}
	w.policies[0].Suspend = false
	w.pass(time.Second)
	w.want("abc", v1alpha1.PhaseUndoing, "canary")
}

// TestSeveralContainersWait: a node fails at once if one of the reasons for which its containers wait is one that the policy names, and the status shows that one. Of a container that was restarted
// too often, it shows that it crashes.
func TestSeveralContainersWait(t *testing.T) {
	wait := rollout.WaitingFor("ImagePullBackOff") | rollout.WaitingFor("CrashLoopBackOff") | rollout.WaitingFor("CreateContainerConfigError")
	for name, c := range map[string]struct {
		restarts uint16
		reason   string
	}{"waits": {0, "CreateContainerConfigError"}, "restarts": {4, "CrashLoopBackOff"}} {
		t.Run(name, func(t *testing.T) {
			reasons := "CreateContainerConfigError"
			if c.restarts > 0 {
				reasons = "InvalidImageName"
			}
			w := canary(t, strings.Replace(judged, "ImagePullBackOff", reasons, 1))
			w.fails("a", func(p *rollout.Pod) { p.Waiting, p.Restarts = wait, c.restarts })
			w.pass(time.Second)
			if f := w.last.Waves[0].FailedNodes; len(f) != 1 || f[0].Reason != c.reason {
				t.Errorf("the status has %+v", f)
			}
		})
	}
}
