// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

const hurried = `
waves: [{name: canary, nodes: {count: 3}, soak: 1m}]
failure: {nodeDeadline: 5m, waveDeadline: 10m, action: Undo}
`

// TestWaveDeadlineWhileNothingMayStart: the time in which nothing may start does not count for the deadline of a wave, whatever holds all of its nodes, and asks for no decision.
// When that ends, the time counts.
func TestWaveDeadlineWhileNothingMayStart(t *testing.T) {
	for name, hold := range map[string]func(w *world) (release func()){
		"pods of later waves that were broken before use up the budget": func(w *world) func() {
			w.s.Set.MaxUnavailable = rollout.Quantity{Value: 1}
			w.put("j", 0, false)
			return func() { w.put("j", 0, true) }
		},
		"another set of the concurrency group is in the middle of its update": func(w *world) func() {
			w.neighbours = &policy.Neighbours{Group: policy.Group{Name: "network", Scope: policy.ScopeCluster}, Others: []policy.Neighbour{
				{Set: policy.Set{Namespace: "default", Name: "other"}, Known: true, UnderWay: policy.Nodes{"a": ""}},
			}}
			return func() { w.neighbours = nil }
		},
		"the partition of the set": func(w *world) func() {
			w.s.Set.Partition = rollout.Quantity{Value: 10}
			return func() { w.s.Set.Partition.Value = 0 }
		},
		"the selector of the set": func(w *world) func() {
			w.s.Set.Selective = true
			return func() { w.s.Set.Selective = false }
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, hurried)
			release := hold(w)
			w.pass(0)
			for range 30 {
				w.want("", v1alpha1.PhaseRolling, "canary") // no node is touched
				w.pass(time.Minute)
				w.wantNoFailure()
			}
			if w.out.Wake != 0 {
				t.Errorf("it decides again at %v, although nothing may start", w.out.Wake)
			}
			release()
			w.pass(time.Minute)
			if w.out.Wake != w.s.Now.Add(10*time.Minute) {
				t.Errorf("it decides again at %v, want at the deadline", w.out.Wake)
			}
			w.pass(9 * time.Minute)
			w.wantNoFailure()
			w.pass(time.Minute)
			if f := w.last.Failure; f == nil || f.Message != "Wave canary failed: after 10m0s, 0 of 3 nodes have an available pod." {
				t.Errorf("failure %+v", f)
			}
		})
	}
}

// TestWaveDeadlineWhileAnotherNodeUsesThePace: a node that was broken before its update uses the pace for nodeDeadline; in that time no update of the wave may start.
func TestWaveDeadlineWhileAnotherNodeUsesThePace(t *testing.T) {
	w := newWorld(t, strings.Replace(hurried, "nodeDeadline: 5m", "nodeDeadline: 30m", 1)+"pace: {maxUpgrading: 1}")
	w.put("a", 0, false)
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "canary")
	w.put("a", 1, false)
	w.pass(time.Second)
	for range 29 {
		w.pass(time.Minute)
		w.want("", v1alpha1.PhaseRolling, "canary")
		w.wantNoFailure()
	}
	w.pass(time.Minute)
	w.want("b", v1alpha1.PhaseRolling, "canary")
	w.put("b", 1, false)
	w.pass(9 * time.Minute)
	w.wantNoFailure()
	w.pass(time.Minute)
	if f := w.last.Failure; f == nil || !strings.Contains(f.Message, "after 10m0s, 0 of ") {
		t.Errorf("failure %+v", f)
	}
}

// TestWaveDeadlineBetweenTwoStarts: the time between two starts is the pace of the wave itself, so it counts. A node without a pod uses no pace if it needs none, as a control plane, or went down without one.
func TestWaveDeadlineBetweenTwoStarts(t *testing.T) {
	for name, fit := range map[string]rollout.Fit{"none": rollout.MustRun, "a control plane": rollout.MustLeave, "a node that went down": rollout.MayStay} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, hurried+"pace: {maxUpgrading: 1, minTimeBetween: 1h}")
			if j := w.node("j"); fit != rollout.MustRun {
				j.Pods, j.Fit, j.Ready, j.Since = nil, fit, fit == rollout.MustLeave, w.s.Now
			}
			w.pass(0)
			w.want("a", v1alpha1.PhaseRolling, "canary")
			w.last.LastStart = policy.Moment(w.s.Now)
			w.pass(time.Second)
			for range 9 {
				w.pass(time.Minute)
				w.want("", v1alpha1.PhaseRolling, "canary")
				w.wantNoFailure()
			}
			w.pass(time.Minute)
			if f := w.last.Failure; f == nil || !strings.Contains(f.Message, "after 10m0s, 1 of 3 nodes ") {
				t.Errorf("failure %+v, rolled for %v", f, w.last.Waves[0].Rolled)
			}
		})
	}
}

// TestWaveDeadlineOfAWaveThatHasBegun: an update that has begun counts, also while nothing else may start. The revision may be why alerts are firing, and would delay its own deadline.
func TestWaveDeadlineOfAWaveThatHasBegun(t *testing.T) {
	const alerts = "blockOnAlerts: {provider: main, match: 'severity=\"critical\"', firingOnly: true}\n"
	for name, hold := range map[string]func(w *world){
		"the partition of the set": func(w *world) { w.answer("", passes) },
		"alerts are firing":        func(w *world) { w.answer("", failing) },
		"a freeze": func(w *world) {
			w.policies[0] = read(t, hurried+"freezes: [{from: '2020-01-01T00:00:00Z', to: '2100-01-01T00:00:00Z'}]\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, hurried+alerts)
			w.s.Set.Partition = rollout.Quantity{Value: 9}
			w.pass(0)
			w.answer("", passes)
			w.pass(0)
			w.want("a", v1alpha1.PhaseRolling, "canary")
			w.put("a", 1, false)
			w.node("a").Pods[0].Phase, w.node("a").Pods[0].Pull = rollout.Pending, rollout.Pulls // which no nodeDeadline counts
			hold(w)
			w.pass(time.Minute)
			for range 9 {
				hold(w)
				w.pass(time.Minute)
				w.wantNoFailure()
			}
			w.pass(time.Minute)
			if w.last.Failure == nil {
				t.Errorf("phase %s", w.last.Phase)
			}
		})
	}
}

// TestWaveDeadlineBecauseOfOthers: a node that was unreachable before the rollout, also after its old pod was deleted, and a pod that a policy of admission protects do not undo
// what works on all other nodes of the wave.
func TestWaveDeadlineBecauseOfOthers(t *testing.T) {
	for name, hold := range map[string]func(n *rollout.Node){
		"a node is unreachable since before the rollout": func(n *rollout.Node) { n.Ready, n.Since, n.Pods[0].Ready = false, 1, false },
		"and its old pod does not terminate": func(n *rollout.Node) {
			n.Ready, n.Since, n.Pods[0].Ready, n.Pods[0].Deleting = false, 1, false, true
		},
		"a policy of admission protects a pod": func(n *rollout.Node) {
			n.Refusal = &rollout.Refusal{Message: "admission webhook denied the request", Of: rollout.Delete, RetryAt: rollout.EndOfTime}
		},
		"a policy of admission protects a pod with a preDelete hook": func(n *rollout.Node) { // from the label that asks for the hook
			n.Refusal = &rollout.Refusal{Message: "admission webhook denied the request", Denied: true, RetryAt: rollout.EndOfTime}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, hurried)
			hold(w.node("a"))
			for range 30 {
				w.pass(time.Minute)
				for _, node := range "bc" { // nothing can be done on a
					w.put(string(node), 1, true)
				}
				w.wantNoFailure()
			}
		})
	}
}

// TestWaveDeadlineWhileAWebhookIsDown: a webhook that cannot be called says nothing about the revision, so the time without a pod does not count. A quota or a webhook that denies the pod does.
func TestWaveDeadlineWhileAWebhookIsDown(t *testing.T) {
	for _, denied := range []bool{false, true} {
		w := newWorld(t, hurried)
		w.pass(0)
		w.want("abc", v1alpha1.PhaseRolling, "canary")
		a := w.node("a")
		a.Pods, a.Last = nil, 1
		a.Refusal = &rollout.Refusal{Message: "failed calling webhook", Denied: denied, RetryAt: w.s.Now.Add(time.Hour)}
		for range 20 {
			w.pass(time.Minute)
		}
		if failed := w.last.Failure != nil; failed != denied {
			t.Errorf("denied %t: failure %+v", denied, w.last.Failure)
		}
		if denied {
			continue
		}
		a.Refusal = nil // the webhook is back, and the time counts
		w.put("a", 1, false)
		w.node("a").Pods[0].Phase, w.node("a").Pods[0].Pull = rollout.Pending, rollout.Pulls
		w.pass(time.Minute)
		w.pass(9 * time.Minute)
		w.wantNoFailure()
		w.pass(time.Minute)
		if w.last.Failure == nil {
			t.Errorf("phase %s", w.last.Phase)
		}
	}
}
