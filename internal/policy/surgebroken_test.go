// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/internal/rollout"
)

// surging is a set that creates new pods first. On node a the pod of the committed revision has never started, so an older pod serves there still.
func surging(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, strings.Replace(judged, "maxFailedNodes: 1", "maxFailedNodes: 0", 1))
	w.s.Set.MaxSurge, w.s.Set.MaxUnavailable = rollout.Quantity{Value: 10}, rollout.Quantity{}
	w.older(0, false)
	return w
}

// older gives node a an older pod that serves, and next to it a pod of a revision; rollout.NoRevision for none.
func (w *world) older(revision int, ready bool) {
	w.put("a", rollout.NoRevision, true)
	n := w.node("a")
	if revision != rollout.NoRevision {
		p := n.Pods[0]
		p.Name, p.UID, p.Revision, p.Ready = "a-new", "a-new", revision, ready
		pulls(&p)
		n.Pods = append(n.Pods, p)
	}
}

func (w *world) wantBrokenBefore(want ...string) {
	w.t.Helper()
	if names := w.last.NotReadyBefore; !slices.Equal(names, want) {
		w.t.Errorf("the status names %v, want %v", names, want)
	}
}

// TestANodeWhereTheCommittedRevisionNeverStarted: with a surge, an older pod serves on such a node, but its new pods were broken before. That does not count, also not
// for another manager, until a new pod works there.
func TestANodeWhereTheCommittedRevisionNeverStarted(t *testing.T) {
	for name, lead := range map[string]bool{"the same manager": false, "another manager": true} {
		t.Run(name, func(t *testing.T) {
			w := surging(t)
			w.pass(time.Second)
			w.wantBrokenBefore("a")
			w.older(rollout.NoRevision, false) // the broken pod makes room for the next one
			if lead {
				w.lead()
			}
			w.pass(time.Second)
			w.wantBrokenBefore("a")
			w.older(1, false)
			for range 3 {
				w.pass(10 * time.Minute)
			}
			if f := w.last.Failure; f != nil {
				t.Errorf("the revision fails: %s", f.Message)
			}
		})
	}
}

// TestANodeWhereTheCommittedRevisionStartsAtLast: such a node counts again when its pod of the committed revision is ready.
func TestANodeWhereTheCommittedRevisionStartsAtLast(t *testing.T) {
	w := surging(t)
	w.pass(time.Second)
	w.wantBrokenBefore("a")
	w.put("a", 0, true)
	w.pass(time.Second)
	w.wantBrokenBefore()
	w.put("a", 0, true)
	p := w.node("a").Pods[0]
	p.Name, p.UID, p.Revision, p.Ready = "a-new", "a-new", 1, false
	pulls(&p)
	w.node("a").Pods = append(w.node("a").Pods, p)
	w.pass(time.Second)
	if w.last.Failure == nil && w.out.Fail == nil {
		t.Error("the revision does not fail")
	}
}

// TestANodeThatWorksAgainWithoutACommittedRevision: a node whose pod was not available counts again when that pod is available, also if no revision is committed.
func TestANodeThatWorksAgainWithoutACommittedRevision(t *testing.T) {
	w := surging(t)
	w.marks = []int64{0, 0}
	for i := range w.s.Nodes {
		w.put(w.s.Nodes[i].Name, rollout.NoRevision, true)
	}
	w.older(rollout.NoRevision, false)
	w.fails("a", pulls)
	w.pass(time.Second)
	w.wantBrokenBefore("a")
	w.older(rollout.NoRevision, false)
	w.pass(time.Second)
	w.wantBrokenBefore()
}

// TestANodeWhereALaterVersionServes: a node counts again when a pod of a later revision than the committed one serves there.
func TestANodeWhereALaterVersionServes(t *testing.T) {
	w := surging(t)
	w.pass(time.Second)
	w.wantBrokenBefore("a")
	w.put("a", 1, true)
	w.change("v3")
	w.pass(time.Second)
	w.wantBrokenBefore()
}
