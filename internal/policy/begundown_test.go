// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// TestANodeThatGoesDownBeforeItsNewPod: the update has deleted the old pod of a node, which then goes down and is tainted by Kubernetes. It keeps its place, and its wave waits for it, also under
// another manager and when the pod is gone.
func TestANodeThatGoesDownBeforeItsNewPod(t *testing.T) {
	for name, spec := range map[string]string{
		"count":   "waves: [{name: canary, nodes: {count: 2}, soak: 10s}]",
		"percent": "waves: [{name: canary, nodes: {percent: 20}, soak: 10s}]",
		"spread":  "waves: [{name: canary, nodes: {count: 2, spreadBy: [zone]}, soak: 10s}]",
		"growth":  "waves: [{name: canary, nodes: {percent: 40}, growth: {start: 2, factor: 2}, soak: 10s}]",
	} {
		for _, lead := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t, spec+"\nunreachableAfter: 10m")
				w.labels = map[string]map[string]string{"a": {"zone": "1"}, "b": {"zone": "2"}, "c": {"zone": "1"}}
				w.pass(0)
				w.want("ab", v1alpha1.PhaseRolling, "canary")
				w.put("b", 0, true) // its old pod is still terminating
				b := w.node("b")
				b.Last, b.Pods[0].Deleting, b.Pods[0].DeletedAt = 1, true, w.s.Now
				w.pass(time.Second)
				w.want("", v1alpha1.PhaseRolling, "canary")
				b.Ready, b.Since, b.Fit = false, w.s.Now, rollout.MayStay
				for _, pods := range [][]rollout.Pod{b.Pods, nil} {
					b.Pods = pods
					if lead {
						b.Last = 0 // another manager does not know why the pod is being deleted
						w.lead()
					}
					w.pass(time.Second)
					w.want("", v1alpha1.PhaseRolling, "canary")
					if s := w.wave("canary"); s.Available != 1 || s.Gone != 0 || !slices.Equal(s.Begun, []string{"a", "b"}) {
						t.Errorf("%+v", s)
					}
					if name == "growth" {
						continue
					}
					if s := w.wave("canary"); s.Nodes != 2 || !blockedBy(w, "NodesNotReady") || !strings.Contains(w.last.Blocking[0].Message, "The wave canary waits for 1 node that is not ready: b (since ") {
						t.Errorf("%+v, blocking %+v", s, w.last.Blocking)
					}
				}
				b.Ready, b.Since, b.Fit = true, w.s.Now, rollout.MustRun
				w.pass(time.Second)
				w.want("b", v1alpha1.PhaseRolling, "canary")
			})
		}
	}
}

// TestANodeThatStaysDownBeforeItsNewPod: the wave goes on without it after unreachableAfter, and no other node takes its place.
func TestANodeThatStaysDownBeforeItsNewPod(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 2}, soak: 10s}]\nunreachableAfter: 2m")
	w.pass(0)
	w.want("ab", v1alpha1.PhaseRolling, "canary")
	w.put("b", 0, true)
	b := w.node("b")
	b.Last, b.Pods[0].Deleting, b.Pods[0].DeletedAt = 1, true, w.s.Now
	w.pass(time.Second)
	b.Ready, b.Since, b.Fit = false, w.s.Now, rollout.MayStay
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseRolling, "canary")
	w.pass(2 * time.Minute)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	w.pass(10 * time.Second)
	w.want("cdefghij", v1alpha1.PhaseRolling, "remaining")
}

// TestANodeOfAnyWaveThatGoesDownBeforeItsNewPod: also a wave that takes all its nodes at once, and a zone, wait for such a node, and do not go on as if it had never been theirs.
func TestANodeOfAnyWaveThatGoesDownBeforeItsNewPod(t *testing.T) {
	for name, c := range map[string]struct{ spec, wave, first, next string }{
		"selector": {"waves: [{name: canary, nodes: {selector: {matchLabels: {zone: '1'}}}}]\n", "canary", "ab", "cdefghij"},
		"zones":    {"order: {topologyKey: zone, domains: OneAtATime}\n", "remaining", "ab", "cd"},
	} {
		t.Run(name, func(t *testing.T) {
			w := inZones(t, "")
			w.policies[0] = read(t, c.spec+"unreachableAfter: 10m")
			w.pass(0)
			w.want(c.first, v1alpha1.PhaseRolling, c.wave)
			b := w.node("b")
			b.Pods, b.Last, b.Ready, b.Since, b.Fit = nil, 1, false, w.s.Now, rollout.MayStay
			w.pass(time.Second)
			w.want("", v1alpha1.PhaseRolling, c.wave)
			if s := w.wave(c.wave); s.Available != 1 || !blockedBy(w, "NodesNotReady") {
				t.Errorf("%+v, blocking %+v", s, w.last.Blocking)
			}
			w.pass(10 * time.Minute)
			w.want(c.next, v1alpha1.PhaseRolling, w.out.Status.Wave)
		})
	}
}

// TestANodeThatWasDownBeforeARollback: that the last pod of a node had the same revision, before it went down long ago, is no update that has begun.
func TestANodeThatWasDownBeforeARollback(t *testing.T) {
	w := inZones(t, "")
	w.outdates()
	b := w.node("b")
	b.Pods, b.Last, b.Ready, b.Since, b.Fit = nil, 1, false, noon.Add(-time.Hour), rollout.MayStay
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "remaining")
	w.pass(time.Second)
	w.want("cd", v1alpha1.PhaseRolling, "remaining")
}

// TestManyNodesThatGoDownBeforeTheirNewPod: a zone loses its nodes. The work for each of them does not grow with their number.
func TestManyNodesThatGoDownBeforeTheirNewPod(t *testing.T) {
	const limit = 100 << 20
	w := newWorld(t, "")
	w.pass(0)
	for i := range 3000 {
		w.s.Nodes = append(w.s.Nodes, rollout.Node{Name: fmt.Sprintf("n%04d", i), Fit: rollout.MayStay, Since: w.s.Now, Last: 1})
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	w.pass(time.Second)
	runtime.ReadMemStats(&after)
	if bytes := after.TotalAlloc - before.TotalAlloc; !blockedBy(w, "NodesNotReady") || bytes > limit {
		t.Errorf("a decision allocates %d MiB; blocking %+v", bytes>>20, w.last.Blocking)
	}
}
