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

const longSoak = "waves: [{name: canary, nodes: {count: 3}, soak: 10m}]\n"

// inSoak is a world in which the canary of three nodes soaks.
func inSoak(t *testing.T, spec string) *world {
	t.Helper()
	w := newWorld(t, spec)
	w.pass(0)
	w.roll()
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	return w
}

// blinks has the pod of a node become ready a second from now: no decision sees that it was not ready.
func (w *world) blinks(name string) { w.node(name).Pods[0].ReadySince = w.s.Now.Add(time.Second) }

// outage has the pod of a node fail for a moment, which a decision sees or not.
func (w *world) outage(name string, seen bool) {
	if seen {
		w.node(name).Pods[0].Ready = false
		w.pass(time.Second)
		w.node(name).Pods[0].Ready = true
	}
	w.blinks(name)
	w.pass(time.Second)
}

func seenOrNot(t *testing.T, test func(t *testing.T, seen bool)) {
	for _, seen := range []bool{true, false} {
		t.Run(fmt.Sprintf("seen %t", seen), func(t *testing.T) { test(t, seen) })
	}
}

// TestSoakAfterAnOutage: whatever the clock of the node shows, and also if the pod was replaced, the soak starts again, and the status says because of which node.
func TestSoakAfterAnOutage(t *testing.T) {
	for name, fails := range map[string]func(w *world, p *rollout.Pod){
		"not ready":  func(w *world, p *rollout.Pod) { p.ReadySince = w.s.Now },
		"clock back": func(w *world, p *rollout.Pod) { p.ReadySince = w.s.Now.Add(-time.Hour) },
		"replaced": func(w *world, p *rollout.Pod) {
			p.UID, p.Created, p.ReadySince = "other", w.s.Now, p.ReadySince.Add(-time.Hour)
		},
	} {
		w := inSoak(t, longSoak)
		w.pass(9 * time.Minute)
		fails(w, &w.node("b").Pods[0])
		w.pass(2 * time.Minute)
		if got := w.roll(); got != "" {
			t.Errorf("%s: rolls %s 2 minutes after an outage", name, got)
		}
		if st := w.last; st.Waves[0].SoakRestarts != 1 || !strings.Contains(st.Blocking[0].Message, "again once, because the pod on node b was not available") || !slices.Contains(w.events, policy.ReasonSoakRestarted) {
			t.Errorf("%s: %+v, %v", name, st, w.messages)
		}
	}
}

// TestSoakOfOtherNodes: nodes that the wave does not wait for hold no soak, whatever their pods do.
func TestSoakOfOtherNodes(t *testing.T) {
	seenOrNot(t, func(t *testing.T, seen bool) {
		for name, leave := range map[string]func(w *world){
			"left out": func(w *world) { w.node("a").Ready, w.node("a").Since = false, w.s.Now }, // the kubelet reports, but the node is not ready
			"may stay": func(w *world) { w.node("a").Fit = rollout.MayStay },
		} {
			w := newWorld(t, "waves: [{name: canary, nodes: {selector: {matchLabels: {canary: 'true'}}}, soak: 10m}]\nunreachableAfter: 1m")
			w.labels["a"], w.labels["b"] = map[string]string{"canary": "true"}, map[string]string{"canary": "true"}
			w.pass(0)
			w.roll()
			w.pass(time.Second)
			leave(w)
			w.pass(0)
			w.pass(2 * time.Minute)
			for range 10 {
				w.outage("a", seen)
				w.pass(time.Minute)
			}
			if w.last.Phase == v1alpha1.PhaseSoaking {
				t.Errorf("%s: 12 minutes later it still soaks: %+v", name, w.last.Waves)
			}
		}
	})
}

// TestOutageWhileAPolicyIsNotFollowed: while a policy cannot be followed, or the revision is rejected, no soak goes on, and an outage is not forgotten.
func TestOutageWhileAPolicyIsNotFollowed(t *testing.T) {
	other := func(more string) func(w *world) func() {
		return func(w *world) func() {
			was := w.policies
			w.policies = []*policy.Policy{read(w.t, longSoak+more)}
			return func() { w.policies = was }
		}
	}
	seenOrNot(t, func(t *testing.T, seen bool) {
		for name, stop := range map[string]func(w *world) (goOn func()){
			"invalid":    other("windows: [{schedule: 'nonsense', duration: 1h}]"),
			"label gone": other("order: {topologyKey: zone, domains: OneAtATime}"),
			"rejected": func(w *world) func() {
				w.approve("no", "", "v2", v1alpha1.Reject)
				return func() { w.approvals = nil }
			},
			"suspended": func(w *world) func() {
				w.policies[0].Suspend = true
				return func() { w.policies[0].Suspend = false }
			},
		} {
			w := inSoak(t, longSoak)
			w.pass(9 * time.Minute)
			goOn := stop(w)
			w.pass(time.Second)
			w.outage("a", seen)
			w.pass(5 * time.Minute)
			goOn()
			w.pass(time.Second)
			w.pass(2 * time.Minute)
			if got := w.roll(); got != "" {
				t.Errorf("%s: rolls %s, 2 minutes after the end of that, and there was an outage: %v", name, got, w.messages)
			}
		}
	})
}

// TestNodesThatJoinASoak: while a node that has joined gets its first pod, the soak pauses. It does not start again, or nodes that join again and again would hold
// it for ever. If that pod fails later, it starts again.
func TestNodesThatJoinASoak(t *testing.T) {
	w := newWorld(t, "waves: [{name: all, nodes: {selector: {}}, soak: 10m}]")
	w.pass(0)
	w.roll()
	w.pass(time.Second)
	join := func(name string) {
		w.join(name, w.s.Now, 0)
		w.node(name).Pods = nil
		w.pass(time.Second)
		if st := w.last; st.Phase != v1alpha1.PhaseSoaking || !strings.Contains(st.Blocking[0].Message, "waits for the first pod of 1 node that joined, for example of "+name) {
			t.Fatalf("%+v", st)
		}
		w.pass(time.Hour) // does not count
		if got := w.roll(); got != name {
			t.Fatalf("rolled %q, want %s", got, name)
		}
		w.pass(time.Second)
	}
	join("k")
	w.pass(8 * time.Minute)
	join("l")
	w.outage("l", true)
	w.pass(8 * time.Minute)
	join("m")
	w.want("", v1alpha1.PhaseSoaking, "all")
	w.pass(3 * time.Minute)
	if w.want("", v1alpha1.PhaseRolling, ""); w.out.Commit != 1 {
		t.Errorf("%+v", w.out)
	}
	if st := w.last.Waves[0]; st.SoakRestarts != 1 || st.SoakRestartedBy != "l" {
		t.Errorf("%+v", st)
	}
}

// TestExcessPodInASoak: a second pod of the target that is deleted, and is not ready any more, is no outage.
func TestExcessPodInASoak(t *testing.T) {
	w := inSoak(t, longSoak)
	n := w.node("a")
	extra := n.Pods[0]
	extra.UID = "extra"
	n.Pods = append(n.Pods, extra)
	w.pass(9 * time.Minute)
	n.Pods[1].Deleting, n.Pods[1].DeletedAt = true, w.s.Now
	w.pass(time.Second)
	n.Pods[1].Ready, n.Pods[1].ReadySince = false, w.s.Now
	w.pass(time.Second)
	n.Pods = n.Pods[:1]
	w.pass(2 * time.Minute)
	if w.last.Phase == v1alpha1.PhaseSoaking {
		t.Error(w.messages)
	}
}

// TestLeadersWithAFastNode: the clock of a node is a year ahead. Managers that follow each other end the soak at some time.
func TestLeadersWithAFastNode(t *testing.T) {
	w := inSoak(t, longSoak)
	w.node("a").Pods[0].ReadySince = w.s.Now.Add(365 * 24 * time.Hour)
	w.pass(time.Second)
	for range 3 {
		w.lead()
		w.pass(15 * time.Second)
		w.pass(8 * time.Minute)
	}
	if w.last.Phase == v1alpha1.PhaseSoaking {
		t.Errorf("%+v, %v", w.last.Waves[0], w.messages)
	}
}

// canaryOf has a wave of the nodes a and b, and of k as soon as it joins.
func canaryOf(t *testing.T, more string) *world {
	w := newWorld(t, "waves: [{name: canary, nodes: {selector: {matchLabels: {canary: 'true'}}}, "+more+"}]")
	for _, name := range []string{"a", "b", "k"} {
		w.labels[name] = map[string]string{"canary": "true"}
	}
	w.pass(0)
	w.roll()
	w.pass(time.Second)
	return w
}

// joinsWith gives the wave another node, whose first pod is ready or not.
func (w *world) joinsWith(name string, ready bool) {
	w.join(name, w.s.Now, 0)
	w.node(name).Pods = nil
	w.pass(time.Second)
	w.put(name, 1, ready)
	w.pass(time.Second)
}

// TestOutageOfANodeThatJoinedWithANewLeader: a new leader does not take it for a node without a first pod.
func TestOutageOfANodeThatJoinedWithANewLeader(t *testing.T) {
	w := canaryOf(t, "soak: 10m")
	w.joinsWith("k", true)
	w.pass(8 * time.Minute)
	w.node("k").Pods[0].Ready, w.node("k").Pods[0].ReadySince = false, w.s.Now
	w.lead()
	w.pass(time.Second)
	w.node("k").Pods[0].Ready, w.node("k").Pods[0].ReadySince = true, w.s.Now
	w.pass(time.Second)
	w.pass(3 * time.Minute)
	if got := w.roll(); got != "" {
		t.Errorf("rolls %s 3 minutes after an outage: %+v", got, w.last.Waves)
	}
}

// TestASoakThatWaitsForANodeThatJoined: the status shows since when the wave is not complete, the soak has no end that is known, and an approval that is missing is not forgotten.
func TestASoakThatWaitsForANodeThatJoined(t *testing.T) {
	w := canaryOf(t, "soak: 10m")
	w.joinsWith("k", false)
	w.pass(time.Hour)
	if n := w.last.Next; n == nil || n.Action != v1alpha1.ActionEndSoak || n.At != nil || w.last.Waves[0].RollingSince == nil {
		t.Errorf("next %+v, %+v", n, w.last.Waves[0])
	}
	w = canaryOf(t, "after: [{type: Approval, remindAfter: 1h}]")
	w.want("", v1alpha1.PhaseWaitingForApproval, "canary")
	w.joinsWith("k", false)
	for range 7 {
		w.pass(10 * time.Minute)
	}
	if n := w.last.Next; n == nil || n.Action != v1alpha1.ActionApprove || !slices.Contains(w.events, policy.ReasonApprovalMissing) {
		t.Errorf("next %+v, events %v", n, w.events)
	}
	w.approve("yes", "canary", "v2", v1alpha1.Approve)
	w.pass(time.Second)
	w.pass(time.Second)
	if b := w.last.Blocking; len(b) != 1 || b[0].Message != "The wave canary waits for the first pod of 1 node that joined, for example of k." {
		t.Errorf("with an approval: %+v", b)
	}
	w.put("k", 1, true)
	w.pass(time.Second)
	w.want("cdefghij", v1alpha1.PhaseRolling, "remaining")
}

// TestSoakOfNodesThatAreAllLeftOut names no node that starts it again.
func TestSoakOfNodesThatAreAllLeftOut(t *testing.T) {
	w := newWorld(t, "unreachableAfter: 1m\nwaves: [{name: canary, nodes: {count: 1}, soak: 10m}]")
	w.pass(0)
	w.roll()
	w.pass(time.Second)
	n := w.node("a")
	n.Ready, n.Since = false, w.s.Now
	w.pass(time.Second)
	w.pass(2 * time.Minute)
	n.Ready, n.Since = true, w.s.Now
	w.pass(time.Second)
	if st := w.last; st.Phase != v1alpha1.PhaseSoaking || strings.Contains(st.Blocking[0].Message, "again") {
		t.Errorf("%+v", st)
	}
}

// TestReplacedPodBeforeANewLeader: a canary's pod that was created after its wave was complete starts the soak again, also for a manager that has just taken over, and whatever the clock
// of the node shows.
func TestReplacedPodBeforeANewLeader(t *testing.T) {
	for name, off := range map[string]time.Duration{"slow": -time.Hour, "right": 0, "fast": time.Hour} {
		w := inSoak(t, longSoak)
		w.pass(9 * time.Minute)
		p := &w.node("b").Pods[0]
		p.UID, p.Created, p.ReadySince = "other", w.s.Now, w.s.Now.Add(off+time.Second)
		w.lead()
		w.pass(2 * time.Second)
		w.pass(2 * time.Minute)
		if got := w.roll(); got != "" {
			t.Errorf("the node has a clock that is %s: rolls %s 2 minutes after the pod of b was replaced", name, got)
		}
	}
}
