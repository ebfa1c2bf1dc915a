// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// TestAPromoteCountsForOneStep: a user who goes on without the nodes of a step, or of a zone, has not looked at those of later ones: a version that takes down, or destroys, each node that gets it stops again.
func TestAPromoteCountsForOneStep(t *testing.T) {
	const growth, zones = "waves: [{name: all, nodes: {percent: 100}, growth: {start: 1, factor: 2}}]\nunreachableAfter: 5m", "waves: [{name: all}]\norder: {topologyKey: zone, domains: OneAtATime}\nunreachableAfter: 5m"
	down, destroyed := (*world).kills, func(w *world, names string) {
		if names != "" {
			w.pass(time.Second)
			w.vanish(names)
		}
	}
	for name, c := range map[string]struct {
		spec, reason string
		hurts        func(w *world, names string)
		reached      []string
	}{
		"steps that go down":       {growth, "NodesLeftOut", down, []string{"a", "bc", "defg"}},
		"zones that go down":       {zones, "NodesLeftOut", down, []string{"ab", "cd", "ef"}},
		"steps that are destroyed": {growth, "NodesGone", destroyed, []string{"a", "bc", "defg"}},
		"zones that are destroyed": {zones, "NodesGone", destroyed, []string{"ab", "cd", "ef"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.spec)
			for i, name := range strings.Split("abcdefghij", "") {
				w.labels[name] = map[string]string{"zone": string(rune('1' + i/2))}
			}
			w.s.Set.MaxUnavailable = rollout.Quantity{Value: 10}
			w.pass(0)
			for k, want := range c.reached {
				reached := ""
				for range 20 {
					more := w.roll()
					c.hurts(w, more)
					reached += more
					w.pass(time.Minute)
				}
				if reached != want || !blockedBy(w, c.reason) {
					t.Fatalf("after %d promotions, the version reaches %q, want %q; blocking %+v, approvals %+v", k, reached, want, w.last.Blocking, w.approvals)
				}
				w.restored = k == 1
				w.approve(strings.Repeat("on", k+1), "all", "v2", v1alpha1.Promote)
				w.pass(time.Second)
			}
		})
	}
}

// TestAPromoteOfAStepEndsNoSoak: the nodes that the wave goes on with are observed, unless a user ends that too.
func TestAPromoteOfAStepEndsNoSoak(t *testing.T) {
	w := newWorld(t, "waves: [{name: all, nodes: {percent: 100}, growth: {start: 1, factor: 9}, soak: 1h}]\nunreachableAfter: 1m")
	w.s.Set.MaxUnavailable = rollout.Quantity{Value: 10}
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "all")
	w.kills("a")
	w.pass(time.Second)
	w.pass(5 * time.Minute)
	w.want("", v1alpha1.PhaseRolling, "all")
	w.approve("on", "all", "v2", v1alpha1.Promote)
	w.pass(time.Second)
	if st := w.approvals[0].Status; st.Step != 1 || st.Domain != "" {
		t.Errorf("the decision is about %+v", st)
	}
	w.want("bcdefghij", v1alpha1.PhaseRolling, "all")
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseSoaking, "all")
	w.approve("end", "all", "v2", v1alpha1.Promote)
	w.pass(time.Second)
	if st := w.out.Status.Waves[0]; st.Phase != v1alpha1.WavePassed || st.Approval != "end" {
		t.Errorf("the wave is %+v", st)
	}
}

// TestAPromoteOfAWaveThatIsGone: another node of the wave that had begun later, and is gone too, needs another decision.
func TestAPromoteOfAWaveThatIsGone(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 2}, soak: 1h}]")
	w.s.Set.MaxUnavailable = rollout.Quantity{Value: 1}
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "canary")
	w.pass(time.Second)
	w.approve("early", "canary", "v2", v1alpha1.Promote) // before any node is gone
	w.pass(0)
	w.want("b", v1alpha1.PhaseRolling, "canary")
	w.put("b", 1, false)
	w.pass(time.Second)
	w.vanish("ab")
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseStalled, "canary")
	w.approve("on", "canary", "v2", v1alpha1.Promote)
	w.pass(time.Second)
	w.want("c", v1alpha1.PhaseRolling, "remaining")
}

// TestAPromoteGoesOnWithoutAWaveThatIsLeftOut: a user may go on without all nodes of a wave, as without those of a step. The decision counts for these nodes only, and ends no soak.
func TestAPromoteGoesOnWithoutAWaveThatIsLeftOut(t *testing.T) {
	leftOut := func(t *testing.T) *world {
		w := newWorld(t, "waves: [{name: canary, nodes: {selector: {matchLabels: {canary: 'true'}}}, soak: 1h, after: [{type: Approval}]}]\nunreachableAfter: 1m")
		for name := range strings.SplitSeq("abc", "") {
			w.labels[name] = map[string]string{"canary": "true"}
		}
		w.pass(0)
		w.want("abc", v1alpha1.PhaseRolling, "canary")
		w.kills("abc")
		w.pass(time.Second)
		w.pass(5 * time.Minute)
		w.want("", v1alpha1.PhaseRolling, "canary")
		w.say("NodesLeftOut", "go on without them with a RolloutApproval with the decision Promote")
		w.approve("on", "canary", "v2", v1alpha1.Promote)
		w.pass(time.Second)
		if st := w.approvals[0].Status; st.State != v1alpha1.ApprovalValid || st.Step != 3 {
			t.Errorf("the decision is about %+v", st)
		}
		w.want("", v1alpha1.PhaseWaitingForApproval, "canary")
		return w
	}
	t.Run("the rollout goes on", func(t *testing.T) {
		w := leftOut(t)
		w.approve("yes", "canary", "v2", v1alpha1.Approve)
		w.pass(time.Second)
		w.want("defghij", v1alpha1.PhaseRolling, "remaining")
	})
	t.Run("a node that comes back soaks", func(t *testing.T) {
		w := leftOut(t)
		w.node("a").Ready = true
		w.put("a", 1, true)
		w.pass(time.Minute)
		w.want("", v1alpha1.PhaseSoaking, "canary")
	})
	t.Run("later nodes need another decision", func(t *testing.T) {
		w := leftOut(t)
		w.labels["d"] = map[string]string{"canary": "true"}
		w.pass(time.Second)
		w.want("d", v1alpha1.PhaseRolling, "canary")
		w.kills("d")
		w.pass(time.Second)
		w.pass(5 * time.Minute)
		w.want("", v1alpha1.PhaseRolling, "canary")
		w.say("NodesLeftOut", "Each node of the wave canary (4)")
	})
}

// TestAPromoteWithoutItsPlaceEndsNoSoak: if the API server serves an earlier version of the CRD, it drops the place after which the decision lets the wave go on.
func TestAPromoteWithoutItsPlaceEndsNoSoak(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 2}, soak: 1h}]\nunreachableAfter: 1m")
	w.pass(0)
	w.want("ab", v1alpha1.PhaseRolling, "canary")
	w.kills("ab")
	w.pass(time.Second)
	w.pass(5 * time.Minute)
	w.approve("on", "canary", "v2", v1alpha1.Promote)
	w.refuse()
	w.pass(time.Second)
	w.store()
	w.approvals[0].Status.Step = 0
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseRolling, "canary")
	w.node("a").Ready = true
	w.put("a", 1, true)
	w.pass(time.Minute)
	w.want("", v1alpha1.PhaseSoaking, "canary")
}
