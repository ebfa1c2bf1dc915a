// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// kills lets each node that has just got the new revision go down, as with a version that breaks the network of its node.
func (w *world) kills(names string) {
	for name := range strings.SplitSeq(names, "") {
		if name == "" {
			continue
		}
		w.put(name, 1, false)
		w.node(name).Ready, w.node(name).Since = false, w.s.Now.Add(time.Second)
	}
}

// wantKilled rolls out a version that takes down each node that gets it, and requires that it reaches these nodes only, because nothing shows that it works.
func (w *world) wantKilled(nodes string) {
	w.t.Helper()
	w.pass(0)
	reached := ""
	for range 61 {
		more := w.roll()
		w.kills(more)
		reached += more
		w.pass(time.Minute)
	}
	if reached != nodes || !blockedBy(w, "NodesLeftOut") {
		w.t.Errorf("the version reaches %q, want %q; blocking %+v, waves %+v", reached, nodes, w.last.Blocking, w.out.Status.Waves)
	}
}

// TestGrowthOverNodesThatGoDown: a version that takes down each node that gets it does not reach the next step of a growing wave when unreachableAfter has passed: a step of which all nodes are
// left out shows nothing, as a wave of which all are, or a step of which all are gone.
func TestGrowthOverNodesThatGoDown(t *testing.T) {
	w := newWorld(t, "waves: [{name: all, nodes: {percent: 100}, growth: {start: 1, factor: 2}}]\nunreachableAfter: 5m")
	w.wantKilled("a")
}

// TestZonesOverNodesThatGoDown is the same for a policy that updates one zone at a time: a zone of which all nodes are left out, after their update, shows nothing.
func TestZonesOverNodesThatGoDown(t *testing.T) {
	w := newWorld(t, "order: {topologyKey: zone, domains: OneAtATime}\nunreachableAfter: 5m")
	for i, name := range strings.Split("abcdefghij", "") {
		w.labels[name] = map[string]string{"zone": string(rune('1' + i/2))}
	}
	w.s.Set.MaxUnavailable = rollout.Quantity{Value: 10}
	w.wantKilled("ab")
}

// TestGrowthAfterNodesThatWereDownBefore: nodes that were down before the rollout, and are left out, do not make the first step larger than growth.start.
func TestGrowthAfterNodesThatWereDownBefore(t *testing.T) {
	w := newWorld(t, "waves: [{name: all, nodes: {percent: 100}, growth: {start: 1, factor: 2}}]\nunreachableAfter: 5m")
	for name := range strings.SplitSeq("abc", "") {
		w.isCut(name)
	}
	w.pass(0)
	if got := w.roll(); len(got) != 1 {
		t.Errorf("growth.start is 1, and the first step is %q", got)
	}
}

// TestGrowthOverNodesThatWereBrokenBefore: a node whose pod was not available before its update, and is not after it, says nothing about the revision. The step takes another node, which does, and
// the rollout does not stop because of the broken one.
func TestGrowthOverNodesThatWereBrokenBefore(t *testing.T) {
	for name, c := range map[string]struct {
		broken, reached string
		phase           v1alpha1.Phase
	}{"a version that works": {"ab", "abcdefghij", v1alpha1.PhaseRolling}, "one that works nowhere": {"abcdefghij", "abc", v1alpha1.PhaseFailed}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "waves: [{name: all, nodes: {percent: 100}, growth: {start: 1, factor: 2}, soak: 1h}]\nfailure: {nodeDeadline: 5m, maxFailedNodes: 0, action: Pause}")
			breaks := func() {
				for name := range strings.SplitSeq(c.broken, "") {
					if strings.Contains("ab", name) || w.node(name).Pods[0].Revision == 1 {
						w.fails(name, hangs)
					}
				}
			}
			breaks()
			w.pass(0)
			for range 40 {
				w.pass(time.Minute)
				w.roll()
				breaks()
			}
			if got := w.have(1); got != c.reached || w.last.Phase != c.phase && w.last.Phase != v1alpha1.PhaseSoaking {
				t.Errorf("%q have the new version in phase %s: %+v", got, w.last.Phase, w.last.Blocking)
			}
		})
	}
}

// TestAStepOfWhichTheNodesDieLater: what holds the rollout is only that the last step or zone that has begun shows nothing. Nodes of earlier ones that die later do not, and neither do nodes that a user goes on without.
func TestAStepOfWhichTheNodesDieLater(t *testing.T) {
	for spec, names := range map[string][]string{
		"waves: [{name: all, nodes: {percent: 100}, growth: {start: 1, factor: 2}}]\nunreachableAfter: 5m": {"a", "bc", "defg", "hij"},
		"waves: [{name: all}]\norder: {topologyKey: zone, domains: OneAtATime}\nunreachableAfter: 5m":      {"ab", "cd", "ef", "gh"},
	} {
		w := newWorld(t, spec)
		for i, name := range strings.Split("abcdefghij", "") {
			w.labels[name] = map[string]string{"zone": string(rune('1' + i/2))}
		}
		w.pass(0)
		w.want(names[0], v1alpha1.PhaseRolling, "all")
		w.pass(time.Second)
		w.want(names[1], v1alpha1.PhaseRolling, "all")
		w.kills(names[0])
		w.pass(time.Minute)
		w.pass(10 * time.Minute)
		w.want(names[2], v1alpha1.PhaseRolling, "all")
		w.kills(names[2])
		w.pass(time.Minute)
		w.pass(10 * time.Minute)
		w.want("", v1alpha1.PhaseRolling, "all")
		if b := w.last.Blocking; len(b) != 1 || b[0].Reason != "NodesLeftOut" || !strings.Contains(b[0].Message, "of the wave all that has got the new revision is left out now") {
			t.Errorf("blocking: %+v", b)
		}
		w.approve("on", "all", "v2", v1alpha1.Promote)
		w.pass(time.Second)
		w.want(names[3], v1alpha1.PhaseRolling, "all")
	}
}
