// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
)

const noticed = `
waves:
- {name: canary, nodes: {count: 2}, soak: 10m, after: [{type: Approval}]}
- {name: zone, nodes: {count: 3}}
failure: {action: Undo}
`

// noticed are the notices since the last call, each as TYPE/WAVE.
func (w *world) noticed() string {
	var all []string
	for _, n := range w.notices {
		all = append(all, strings.TrimSuffix(string(n.Type)+"/"+n.Wave, "/"))
	}
	w.notices = nil
	return strings.Join(all, " ")
}

// settle passes until nothing is rolled any more.
func (w *world) settle() {
	w.t.Helper()
	for range 20 {
		w.pass(time.Second)
		if w.roll() == "" {
			w.pass(time.Second)
			if w.roll() == "" {
				return
			}
		}
	}
	w.t.Fatal("it does not come to rest")
}

func (w *world) wantNotices(want string) {
	w.t.Helper()
	if got := w.noticed(); got != want {
		w.t.Errorf("notices %q, want %q", got, want)
	}
}

// A rollout gives a notice of each step, in their order, with what follows.
func TestNoticesOfARollout(t *testing.T) {
	w := newWorld(t, noticed)
	w.settle()
	begun, soaking := w.notices[0], w.notices[1]
	w.wantNotices("wave-begun/canary soaking/canary")
	if begun.Reason != "The wave canary of revision agent-v2 begins on 2 nodes." || begun.Next != "When all its nodes are updated and available, the wave is observed for 10m0s." || begun.At != noon.Add(time.Second) {
		t.Errorf("%+v", begun)
	}
	if soaking.Next != "When it has been observed for 10m0s, the wave needs a RolloutApproval." || *soaking.Counts != (policy.NoticeCounts{Nodes: 2, Updated: 2, Available: 2}) {
		t.Errorf("%+v", soaking)
	}
	if soaking.Policy != "agents" || soaking.Set.Name != "agent" || soaking.Set.Namespace != "default" || soaking.Revision != "agent-v2" || soaking.Committed != "agent-v1" || soaking.Number != 2 {
		t.Errorf("%+v", soaking)
	}
	w.pass(10 * time.Minute)
	if next := w.notices[0].Next; next != "When the wave is approved, the wave zone begins." {
		t.Errorf("next %q", next)
	}
	w.wantNotices("awaiting-approval/canary")
	w.pass(time.Hour)
	w.wantNotices("")
	w.approve("yes", "canary", "v2", v1alpha1.Approve)
	w.settle()
	done := w.notices[len(w.notices)-1]
	w.wantNotices("wave-begun/zone wave-begun/remaining complete")
	if *done.Counts != (policy.NoticeCounts{Nodes: 10, Updated: 10, Available: 10}) || done.Next != "" || done.Reason != "All nodes have revision agent-v2." {
		t.Errorf("%+v, %+v", done, done.Counts)
	}
	w.settle()
	w.wantNotices("")
}

// A failure gives one notice, and the end of its undo another one; a retry is another attempt.
func TestNoticesOfAFailure(t *testing.T) {
	w := newWorld(t, noticed)
	w.pass(time.Second)
	w.roll()
	for _, name := range []string{"a", "b"} {
		w.put(name, 1, false)
	}
	w.pass(time.Second)
	w.pass(11 * time.Minute)
	w.pass(time.Second)
	first := w.notices
	w.wantNotices("wave-begun/canary failed/canary")
	if f := first[1]; f.Next != "The nodes return to the committed revision agent-v1." || f.Counts == nil || f.Counts.Failed != 2 || !strings.HasPrefix(f.Reason, "Wave canary failed: 2 of 2 nodes failed") {
		t.Errorf("%+v, %+v", f, f.Counts)
	}
	w.settle()
	w.wantNotices("undone/canary")
	w.approve("again", "", "v2", v1alpha1.Retry)
	w.settle()
	second := w.notices
	w.wantNotices("wave-begun/canary soaking/canary")
	if first[0].Revision != second[0].Revision || first[0].ID() == second[0].ID() {
		t.Errorf("the retry has the identity %s of the first attempt", second[0].ID())
	}
}

// TestNoticesOfAnUndoThatStops: the notice of a failure says that nodes return. When they do not, because the committed revision does not work either or is lost, another one with an
// identity of its own reports that, once.
func TestNoticesOfAnUndoThatStops(t *testing.T) {
	for reason, stop := range map[string]func(w *world){
		"UndoFailed": func(w *world) {
			w.fails("a", pulls)
			w.fails("b", pulls)
		},
		"UndoNotPossible": func(w *world) { w.forget() },
	} {
		t.Run(reason, func(t *testing.T) {
			w := undoing(t)
			failed := w.notices[len(w.notices)-1]
			w.put("c", 1, true) // it has not returned yet
			w.pass(time.Second)
			w.noticed()
			stop(w)
			w.pass(time.Second)
			at := w.s.Now
			w.pass(time.Second)
			if len(w.notices) != 1 {
				t.Fatalf("notices %+v", w.notices)
			}
			n := w.notices[0]
			if w.say(reason, n.Reason); n.Type != policy.NoticeFailed || n.ID() == failed.ID() || n.Revision != failed.Revision || n.Wave != "canary" || n.Next != "" || n.At != at {
				t.Errorf("%+v after %+v", n, failed)
			}
		})
	}
}

// With the action Pause there is no undo, and that is what the notice says.
func TestNoticeOfAFailureWithoutUndo(t *testing.T) {
	w := newWorld(t, strings.ReplaceAll(noticed, "Undo", "Pause"))
	w.pass(time.Second)
	w.roll()
	w.put("a", 1, false)
	w.pass(time.Second)
	w.pass(11 * time.Minute)
	w.settle()
	if f := w.notices[1]; f.Next != "Nothing starts until the template changes, or a RolloutApproval with the decision Retry is created." {
		t.Errorf("%+v", f)
	}
	w.wantNotices("wave-begun/canary failed/canary")
}

// An undo gives a notice when it has ended, whether the template or a user asked for it; the latter gives one of the failure too.
func TestNoticesOfAnUndo(t *testing.T) {
	w := newWorld(t, noticed)
	w.settle()
	w.noticed()
	w.s.Set.Update, w.s.Revisions[0].Number = 0, 3
	w.settle()
	w.wantNotices("undone")

	w = newWorld(t, noticed)
	w.settle()
	w.noticed()
	w.approve("back", "", "v2", v1alpha1.UndoRollout)
	w.settle()
	if w.notices[0].Reason != "The undo was requested by ada." {
		t.Errorf("%+v", w.notices[0])
	}
	w.wantNotices("failed undone")

	w = newWorld(t, noticed)
	w.settle()
	w.noticed()
	w.approve("back", "", "v2", v1alpha1.UndoRollout)
	w.approvals[len(w.approvals)-1].Spec.By = ""
	w.settle()
	if w.notices[0].Reason != "The undo was requested by a user whom rolloutapproval/back does not name." {
		t.Errorf("%+v", w.notices[0])
	}
}

// The next process repeats the notice of the wave that is active, and that of a failure, with their identity and time; one of a rollout that has ended it does
// not repeat. What happens again has another identity.
func TestNoticesAreRepeated(t *testing.T) {
	w := newWorld(t, noticed)
	restart := func() []policy.Notice {
		t.Helper()
		before := w.notices
		w.notices, w.restored = nil, true
		w.stored = w.last.DeepCopy()
		w.pass(time.Minute)
		got := w.notices
		w.notices = before
		return got
	}
	same := func(got []policy.Notice) {
		t.Helper()
		last := w.notices[len(w.notices)-1]
		if len(got) != 1 || !got[0].Repeated || last.Repeated || got[0].ID() != last.ID() || got[0].At != last.At || got[0].Reason != last.Reason || got[0].Next != last.Next {
			t.Errorf("repeated %+v, want %+v", got, last)
		}
	}
	w.pass(time.Second)
	same(restart())
	w.roll()
	w.pass(time.Second)
	w.noticed()
	soaking := w.last.DeepCopy()
	w.put("a", 1, false)
	w.pass(time.Second)
	w.put("a", 1, true)
	w.pass(time.Second)
	if again := w.notices[0]; again.Type != policy.NoticeSoaking || again.Occurrence == soaking.Waves[0].CompletedAt.Unix() {
		t.Errorf("the soak that begins again has the identity of the first one: %+v", again)
	}
	same(restart())
	w.pass(20 * time.Minute)
	same(restart())
	w.put("a", 1, false)
	w.put("b", 1, false)
	w.pass(time.Minute)
	w.pass(11 * time.Minute)
	same(restart())
	w.settle()
	w.noticed()
	failed := restart()
	if len(failed) != 1 || failed[0].Type != policy.NoticeFailed {
		t.Errorf("after the undo %+v", failed)
	}
	w.s.Set.Update, w.s.Revisions[0].Number = 0, 3
	w.settle()
	if got := restart(); len(got) > 0 {
		t.Errorf("a rollout that has ended: %+v", got)
	}
}

// Each part of the identity counts, and nothing else does.
func TestNoticeIdentity(t *testing.T) {
	base := policy.Notice{Type: policy.NoticeFailed, UID: "u", Revision: "r", Wave: "w"}
	seen := []string{base.ID()}
	for _, change := range []func(n *policy.Notice){
		func(n *policy.Notice) { n.Type = policy.NoticeUndone }, func(n *policy.Notice) { n.UID = "v" }, func(n *policy.Notice) { n.Revision = "s" },
		func(n *policy.Notice) { n.Number = 1 }, func(n *policy.Notice) { n.Attempt = 1 }, func(n *policy.Notice) { n.Wave = "x" }, func(n *policy.Notice) { n.Occurrence = 1 },
	} {
		n := base
		change(&n)
		if id := n.ID(); slices.Contains(seen, id) || len(id) != 32 || strings.Trim(id, "0123456789abcdef") != "" {
			t.Errorf("the identity of %+v is %s, others are %q", n, id, seen)
		}
		seen = append(seen, n.ID())
	}
	n := base
	n.At, n.Reason, n.Next, n.Repeated, n.Counts, n.Policy, n.Dialect = noon, "a", "b", true, &policy.NoticeCounts{}, "p", "native"
	if n.ID() != base.ID() {
		t.Error("what describes a notice changes its identity")
	}
}
