// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// TestPodsOfExcludedNodesTakeTimeToLeave: pods that terminate on nodes that only the template excludes count until they are gone. Before the change, they did not, so each pass deleted as many further pods as the budget allows, and all of them could terminate at once.
func TestPodsOfExcludedNodesTakeTimeToLeave(t *testing.T) {
	for name, c := range map[string]struct{ spec, nodes string }{
		"the budget":   {"{}", "abc"},
		"a pace":       {"pace: {maxUpgrading: 2}", "abc"},
		"waves":        {"waves: [{name: canary, nodes: {count: 1}}]", "abc"},
		"before these": {"waves: [{name: canary, nodes: {count: 1}}]", "hij"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.spec)
			w.s.Set.MaxUnavailable = rollout.Quantity{Value: 2}
			selects(w, c.nodes)
			since := map[string]int{}
			for k := range 80 {
				w.pass(time.Second)
				for n, at := range since {
					if k-at > 5 {
						w.node(n).Pods = nil
						delete(since, n)
					}
				}
				s := w.s
				w.out.Enter(&s, nil)
				for _, a := range rollout.Decide(s).Actions {
					n := &w.s.Nodes[a.Node]
					if a.Kind == rollout.Create {
						w.put(n.Name, a.Revision, true)
						continue
					}
					n.Pods[0].Deleting, n.Pods[0].DeletedAt, since[n.Name] = true, w.s.Now, k
					if n.Fit == rollout.MustRun {
						n.Last = 1
					}
				}
				if len(w.last.Blocking) > 0 {
					t.Fatal(w.last.Blocking)
				}
				if len(since) > 2 {
					t.Fatalf("%d pods terminate at once: %v", len(since), since)
				}
			}
			if w.have(0) != "" || w.have(1) != c.nodes || w.marks[1] == 0 {
				t.Errorf("%q have the old revision, %q the new one: %+v", w.have(0), w.have(1), w.last)
			}
		})
	}
}

// TestUsersDeleteAPodOfAnExcludedNode: such a pod uses up no budget before the wave of its node.
func TestUsersDeleteAPodOfAnExcludedNode(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 1}}]")
	w.s.Set.MaxUnavailable = rollout.Quantity{Value: 1}
	selects(w, "abc")
	w.node("j").Pods[0].Deleting = true
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "canary")
}

// TestAPodThatADeadNodeKeeps: a node that is down cannot end its pod, so that uses up no budget.
func TestAPodThatADeadNodeKeeps(t *testing.T) {
	w := newWorld(t, "{}")
	w.s.Set.MaxUnavailable = rollout.Quantity{Value: 1}
	selects(w, "abc")
	w.isCut("j")
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "remaining")
}

// TestExcludedNodesWhileAWebhookIsDown: a webhook that cannot be called for a minute keeps pods only for that time. Before the change, the rollout ended when each delete had been tried, and when the webhook was back, the pods of
// all these nodes left at once, without the budget and the pace.
func TestExcludedNodesWhileAWebhookIsDown(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 1}}]")
	w.s.Set.MaxUnavailable = rollout.Quantity{Value: 1}
	selects(w, "abc")
	for w.have(1) != "abc" {
		w.pass(time.Second)
		leave(w)
	}
	for range 60 {
		w.pass(time.Second)
		s := w.s
		w.out.Enter(&s, nil)
		for _, a := range rollout.Decide(s).Actions {
			w.s.Nodes[a.Node].Refusal = &rollout.Refusal{Message: "failed calling webhook", Of: rollout.Delete, RetryAt: w.s.Now.Add(10 * time.Second)}
		}
	}
	if b := w.last.Blocking; w.out.Commit >= 0 || w.last.Phase != v1alpha1.PhaseRolling || len(b) != 1 || b[0].Reason != "UpdateRefused" {
		t.Errorf("while the webhook is down: %s %+v", w.last.Phase, b)
	}
	for range 30 {
		for i := range w.s.Nodes {
			w.s.Nodes[i].Refusal = nil
		}
		w.pass(time.Second)
		s := w.s
		w.out.Enter(&s, nil)
		if n := len(rollout.Decide(s).Actions); n > 1 {
			t.Fatalf("%d pods leave at once", n)
		}
		leave(w)
	}
	if w.have(0) != "" || w.last.Phase != v1alpha1.PhaseComplete {
		t.Errorf("%s, %q have the old revision", w.last.Phase, w.have(0))
	}
}

// TestAnExcludedNodeThatWasDown: a node that the template excludes, and that was down for a moment, is no node that waits for its next pod when the update has deleted its old one.
func TestAnExcludedNodeThatWasDown(t *testing.T) {
	w := newWorld(t, "waves: [{name: all, nodes: {}, growth: {start: 1}}]")
	w.s.Set.MaxUnavailable = rollout.Quantity{Value: 1}
	selects(w, "ab")
	for w.have(1) != "ab" {
		w.pass(time.Second)
		leave(w)
	}
	n := w.node("j")
	n.Since, n.Last, n.Pods[0].Deleting, n.Pods[0].DeletedAt = w.s.Now.Add(-time.Second), 1, true, w.s.Now
	for range 3 {
		w.pass(time.Second)
		if wave := w.last.Waves[0]; wave.Nodes != 2 || wave.Gone != 0 || len(wave.Begun) != 2 {
			t.Fatalf("%+v", wave)
		}
	}
}
