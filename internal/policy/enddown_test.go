// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// TestReasonOfARolloutThatEndsWhileANodeIsDown: a node goes down with the revision after its wave has passed. The rollout is not complete without it, and the status says why.
func TestReasonOfARolloutThatEndsWhileANodeIsDown(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 1}}, {name: rest, nodes: {percent: 100}}]")
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "canary")
	w.pass(time.Second)
	w.want("bcdefghij", v1alpha1.PhaseRolling, "rest")
	n := w.node("a")
	n.Ready, n.Since, n.Pods[0].Ready = false, w.s.Now.Add(time.Second), false
	for range 4 {
		w.pass(time.Minute)
	}
	if w.out.Status.Phase != v1alpha1.PhaseRolling {
		t.Fatalf("phase %s", w.out.Status.Phase)
	}
	if !blockedBy(w, "NodesNotReady") || !strings.HasPrefix(w.last.Blocking[0].Message, "The end of the rollout waits for 1 node that is not ready: a (since ") {
		t.Errorf("blocking %+v", w.last.Blocking)
	}
}

// TestReasonOfAnUndoThatEndsWhileANodeIsDown: the template describes the committed revision again, and a node is down with the other one. As long as the set is Undoing, the status says why, also if waves would go
// on without that node.
func TestReasonOfAnUndoThatEndsWhileANodeIsDown(t *testing.T) {
	for name, c := range map[string]struct {
		spec, remedy string
		skip         bool
	}{
		"after unreachableAfter": {"unreachableAfter: 2m\n", "Make the nodes ready, or delete their Nodes.", false},
		"by the rule of the set": {"", "Make the nodes ready, or delete their Nodes.", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.spec+"waves: [{name: canary, nodes: {count: 1}, soak: 1h}]")
			w.s.Set.Unreachable.Skip = c.skip
			w.pass(0)
			w.want("a", v1alpha1.PhaseRolling, "canary")
			w.pass(time.Minute)
			w.put("b", 1, false)
			w.node("b").Ready, w.node("b").Since = false, w.s.Now.Add(-time.Hour)
			w.s.Set.Update, w.s.Revisions[0].Number = 0, 3
			for range 4 {
				w.pass(time.Minute)
				w.roll()
				w.put("b", 1, false) // its kubelet does not answer
			}
			if w.out.Status.Phase != v1alpha1.PhaseUndoing {
				t.Fatalf("phase %s", w.out.Status.Phase)
			}
			text := blockingOf(w, "NodesNotReady")
			if !strings.HasPrefix(text, "The end of the undo waits for 1 node that is not ready: b (since ") || !strings.HasSuffix(text, c.remedy) {
				t.Errorf("blocking %+v", w.last.Blocking)
			}
		})
	}
}

// TestReasonOfAnUndoThatWaitsForANodeThatIsDown: a node goes down with the other revision, and nothing leaves it out yet. As long as the set is Undoing, by the template or by its policy, the status says why. An undo
// by the template ends with no node that has another revision, so it leaves none out.
func TestReasonOfAnUndoThatWaitsForANodeThatIsDown(t *testing.T) {
	for name, c := range map[string]struct {
		spec, remedy string
		byTemplate   bool
	}{
		"by the template":                        {"", "b (since 2027-01-15T08:01:00Z). Make the nodes ready, or delete their Nodes.", true},
		"by the template, with unreachableAfter": {"unreachableAfter: 1h\n", "b (since 2027-01-15T08:01:00Z). Make the nodes ready, or delete their Nodes.", true},
		"by the policy":                          {"", "b (since 2027-01-15T08:01:00Z). Make the nodes ready, or set spec.unreachableAfter, so that waves continue without nodes that are not ready for that long.", false},
		"by the policy, which is suspended":      {"", "", false},
		"by the policy, with unreachableAfter":   {"unreachableAfter: 1h\n", "b (since 2027-01-15T08:01:00Z, left out at 2027-01-15T09:02:00Z).", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.spec+"waves: [{name: canary, nodes: {count: 2}, soak: 1h}]")
			w.pass(0)
			w.want("ab", v1alpha1.PhaseRolling, "canary")
			w.pass(time.Minute)
			w.node("b").Ready, w.node("b").Since, w.node("b").Pods[0].Ready = false, w.s.Now, false
			if c.byTemplate {
				w.s.Set.Update, w.s.Revisions[0].Number = 0, 3
			} else {
				w.approve("undo", "", "v2", v1alpha1.UndoRollout)
				w.policies[0].Suspend = c.remedy == ""
			}
			for range 4 {
				w.pass(time.Minute)
				w.roll()
				w.put("b", 1, false) // its kubelet does not answer
			}
			if w.out.Status.Phase != v1alpha1.PhaseUndoing {
				t.Fatalf("phase %s", w.out.Status.Phase)
			}
			text, is := strings.CutPrefix(blockingOf(w, "NodesNotReady"), "The end of the undo waits for 1 node that is not ready: ")
			if text != c.remedy || is != (c.remedy != "") {
				t.Errorf("blocking %+v, want %q", w.last.Blocking, c.remedy)
			}
		})
	}
}

// blockingOf is the message of a reason in blocking.
func blockingOf(w *world, reason string) string {
	for _, b := range w.last.Blocking {
		if b.Reason == reason {
			return b.Message
		}
	}
	return ""
}
