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

// TestAnotherManagerKnowsOfANodeThatWentDownBeforeItsNewPod: what the last one has seen is in the status, so a zone or a wave by label of which all nodes go down does not pass by that another manager takes over.
func TestAnotherManagerKnowsOfANodeThatWentDownBeforeItsNewPod(t *testing.T) {
	for name, c := range map[string]struct{ spec, wave string }{
		"selector": {"waves: [{name: canary, nodes: {selector: {matchLabels: {zone: '1'}}}}]\n", "canary"},
		"zones":    {"order: {topologyKey: zone, domains: OneAtATime}\n", "remaining"},
		"growth":   {"waves: [{name: all, nodes: {percent: 100}, growth: {start: 2, factor: 2}}]\n", "all"},
	} {
		for _, down := range []string{"b", "ab"} {
			t.Run(name+" "+down, func(t *testing.T) {
				w := inZones(t, "")
				w.policies[0] = read(t, c.spec+"unreachableAfter: 10m")
				w.pass(0)
				w.want("ab", v1alpha1.PhaseRolling, c.wave)
				for name := range strings.SplitSeq(down, "") {
					n := w.node(name)
					n.Pods, n.Last, n.Ready, n.Since, n.Fit = nil, 1, false, w.s.Now, rollout.MayStay
				}
				w.pass(time.Second)
				for name := range strings.SplitSeq(down, "") {
					w.node(name).Last = rollout.NoRevision
				}
				for range 9 {
					w.lead()
					w.pass(time.Minute)
					w.want("", v1alpha1.PhaseRolling, c.wave)
					if s := w.wave(c.wave); !strings.HasSuffix(strings.Join(s.Begun, ""), down) || s.Gone != 0 || !blockedBy(w, "NodesNotReady") {
						t.Fatalf("%+v, blocking %+v", s, w.last.Blocking)
					}
				}
				for range 12 {
					w.pass(time.Minute)
				}
				if down == "ab" { // nothing shows that the revision works
					if w.want("", v1alpha1.PhaseRolling, c.wave); !blockedBy(w, "NodesLeftOut") {
						t.Errorf("blocking %+v", w.last.Blocking)
					}
				}
				b := w.node("b")
				b.Ready, b.Since, b.Fit = true, w.s.Now, rollout.MustRun
				w.pass(time.Second)
				if got := w.roll(); !strings.Contains(got, "b") {
					t.Errorf("%q begin after b is back", got)
				}
				if s := w.wave(c.wave); s.Begun != nil && down == "b" && name != "growth" {
					t.Errorf("the status still names %q", s.Begun)
				}
			})
		}
	}
}

// TestANodeThatIsBackKeepsNoPlace: a wave that takes all its nodes at once does not keep the place of a node that is no longer down, or no longer there.
func TestANodeThatIsBackKeepsNoPlace(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"vanishes":  func(w *world) { w.vanish("b") },
		"relabeled": func(w *world) { w.labels["b"] = map[string]string{"zone": "2"}; w.node("b").Last = rollout.NoRevision },
		"replaced":  func(w *world) { w.node("b").Joined, w.node("b").Last = w.s.Now, rollout.NoRevision },
	} {
		t.Run(name, func(t *testing.T) {
			w := inZones(t, "")
			w.policies[0] = read(t, "waves: [{name: canary, nodes: {selector: {matchLabels: {zone: '1'}}}}]")
			w.pass(0)
			w.want("ab", v1alpha1.PhaseRolling, "canary")
			b := w.node("b")
			b.Pods, b.Last, b.Ready, b.Since, b.Fit, b.Joined = nil, 1, false, w.s.Now, rollout.MayStay, 1
			w.pass(time.Second)
			if s := w.wave("canary"); !slices.Equal(s.Begun, []string{"b"}) {
				t.Fatalf("%+v", s)
			}
			change(w)
			w.pass(time.Second)
			if s := w.wave("canary"); s.Begun != nil || s.Gone != 0 || s.Phase != v1alpha1.WavePassed {
				t.Errorf("%+v", s)
			}
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
