// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// What pods did before a retry does not count, also after an old ControllerRevision was deleted.
func TestARetryAndAnOldRevisionThatIsDeleted(t *testing.T) {
	w := newWorld(t, strings.Replace(judgedStrictly(), "Undo", "Pause", 1))
	w.s.Revisions = append([]rollout.Revision{{Name: "v0"}}, w.s.Revisions...)
	w.marks, w.s.Set.Update = []int64{0, 1, 0}, 2
	for i := range w.s.Nodes {
		w.s.Nodes[i].Pods[0].Revision = 1
	}
	w.pass(0)
	w.want("abc", v1alpha1.PhaseRolling, "canary")
	w.pass(time.Second)
	w.fails("a", restarts)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseFailed, "canary")
	w.approve("retry", "", "v2", v1alpha1.Retry)
	w.pass(time.Second)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseRolling, "canary")
	w.forget()
	w.failed = append(w.failed[:0:0], nil, nil)
	w.pass(time.Second)
	if f := w.last.Failure; f != nil {
		t.Errorf("the retry has failed for what was before it: %s %+v", f.Message, w.last.Waves[0].FailedNodes)
	}
}

// Revisions that appear in the history, which each account that may create them can add, do not let the deadline of a node begin again.
func TestNodeDeadlineWhileTheHistoryChanges(t *testing.T) {
	w := canary(t, judgedStrictly())
	w.fails("a", hangs)
	w.pass(time.Second)
	for range 20 {
		w.s.Revisions, w.marks = append([]rollout.Revision{{Name: "v0"}}, w.s.Revisions...), append([]int64{0}, w.marks...)
		w.failed = append([]*everynode.Failure{nil}, w.failed...)[:2]
		w.s.Set.Update++
		for i := range w.s.Nodes {
			for k := range w.s.Nodes[i].Pods {
				w.s.Nodes[i].Pods[k].Revision++
			}
		}
		w.pass(4 * time.Minute)
		if w.last.Failure != nil {
			return
		}
	}
	t.Errorf("no failure after %s", w.s.Now.Sub(noon))
}

// TestNodeDeadlineWhileCopiesAppear: another account creates a copy of the revision again and again.
func TestNodeDeadlineWhileCopiesAppear(t *testing.T) {
	w := canary(t, judgedStrictly())
	w.fails("a", hangs)
	w.pass(time.Second)
	for k := range 5 {
		w.described = fmt.Sprint("copy-", k) // of the same template
		w.s.Revisions[w.s.Set.Update].Name = w.described
		w.pass(4 * time.Minute)
		if w.last.Failure != nil {
			return
		}
	}
	t.Errorf("no failure after %s", w.s.Now.Sub(noon))
}

// TestNodeDeadlineOfAnotherTemplateWithTheSameNumber: while no manager decides, another account deletes the ControllerRevision of a revision that hangs, and a user corrects the template. The new revision
// gets the same number, and the whole deadline.
func TestNodeDeadlineOfAnotherTemplateWithTheSameNumber(t *testing.T) {
	for _, earlier := range []bool{false, true} { // the status of an earlier version names no UID
		w := canary(t, judgedStrictly())
		w.fails("a", hangs)
		w.pass(time.Second)
		w.pass(9 * time.Minute)
		w.s.Revisions[w.s.Set.Update].Name = "v3" // the generation of the set grows
		if earlier {
			w.last.UID = ""
		}
		w.pass(time.Second)
		w.put("a", 1, false)
		w.node("a").Pods[0].UID = "corrected"
		w.pass(2 * time.Minute)
		if w.pass(2 * time.Minute); w.last.Failure != nil {
			t.Errorf("earlier %t: 4 minutes after its rollout began, the revision has failed: %s", earlier, w.last.Failure.Message)
		}
	}
}
