// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"slices"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// TestANodeThatIsBackAndStillTainted: Kubernetes removes the taints of a node that is ready again a moment later. The node stays in its wave, step and zone meanwhile: they do not pass because a decision comes in between.
func TestANodeThatIsBackAndStillTainted(t *testing.T) {
	for name, c := range map[string]struct{ spec, wave string }{
		"count":    {"waves: [{name: canary, nodes: {count: 2}}]\n", "canary"},
		"selector": {"waves: [{name: canary, nodes: {selector: {matchLabels: {zone: '1'}}}}]\n", "canary"},
		"zones":    {"order: {topologyKey: zone, domains: OneAtATime}\n", "remaining"},
		"growth":   {"waves: [{name: all, nodes: {percent: 100}, growth: {start: 2, factor: 2}}]\n", "all"},
	} {
		for _, pod := range []bool{true, false} {
			for _, lead := range []bool{true, false} {
				t.Run(name, func(t *testing.T) {
					w := inZones(t, "")
					w.policies[0] = read(t, c.spec+"unreachableAfter: 10m")
					w.pass(0)
					w.want("ab", v1alpha1.PhaseRolling, c.wave)
					b := w.node("b")
					if b.Last = 1; pod {
						w.put("b", 1, false)
					} else {
						b.Pods = nil
					}
					w.pass(time.Second)
					b.Ready, b.Since, b.Fit = false, w.s.Now, rollout.MayStay
					w.pass(time.Minute)
					w.want("", v1alpha1.PhaseRolling, c.wave)
					b.Ready, b.Since = true, w.s.Now.Add(3*time.Second) // by the clock of the node
					for range 2 {
						if lead {
							w.lead()
						}
						w.pass(time.Second)
						w.want("", v1alpha1.PhaseRolling, c.wave)
						if s := w.wave(c.wave); s.Phase != v1alpha1.WaveRolling || s.Available != 1 || s.Gone != 0 || s.Begun != nil && !slices.Contains(s.Begun, "b") {
							t.Errorf("%+v", s)
						}
					}
					if c.wave != "canary" {
						return
					}
					if w.out.Wake <= w.s.Now {
						t.Fatal("no decision follows")
					}
					w.pass(time.Duration(w.out.Wake - w.s.Now)) // a user has added the taint, so the set needs no pod there
					w.want("cdefghij", v1alpha1.PhaseRolling, "remaining")
				})
			}
		}
	}
}

// TestANodeThatRestartsBetweenDecisions: no decision has seen it down, so the rule of the dialect for nodes that are not ready does not leave it out.
func TestANodeThatRestartsBetweenDecisions(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 2}}]")
	w.s.Set.Unreachable.Skip = true
	w.pass(0)
	w.want("ab", v1alpha1.PhaseRolling, "canary")
	b := w.node("b")
	b.Pods, b.Last, b.Since, b.Fit = nil, 1, w.s.Now, rollout.MayStay
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseRolling, "canary")
}

// TestThePaceOfNodesThatGoDownBeforeTheirNewPod: a version that takes down each node that loses its pod does not reach one node after the other: they are in the middle of their update.
func TestThePaceOfNodesThatGoDownBeforeTheirNewPod(t *testing.T) {
	w := newWorld(t, "pace: {maxUpgrading: 2}\nunreachableAfter: 10m")
	w.pass(0)
	w.want("ab", v1alpha1.PhaseRolling, "remaining")
	for _, lead := range []bool{false, true} {
		for _, name := range []string{"a", "b"} {
			n := w.node(name)
			if n.Pods, n.Last, n.Ready, n.Since, n.Fit = nil, 1, false, noon, rollout.MayStay; lead {
				n.Last = rollout.NoRevision
			}
		}
		if lead {
			w.lead()
		}
		w.pass(time.Second)
		if w.want("", v1alpha1.PhaseRolling, "remaining"); !blockedBy(w, "NodesNotReady") {
			t.Errorf("blocking %+v", w.last.Blocking)
		}
	}
	b := w.node("b")
	b.Ready, b.Since, b.Fit, b.Last = true, w.s.Now, rollout.MustRun, 1
	w.pass(time.Second)
	w.want("b", v1alpha1.PhaseRolling, "remaining")
	w.pass(time.Second)
	w.want("c", v1alpha1.PhaseRolling, "remaining")
	w.pass(10 * time.Minute)
	w.want("de", v1alpha1.PhaseRolling, "remaining")
}
