// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// aged is a set whose pods, ready since that time, are available after a minute.
func aged(t *testing.T, age time.Duration) *world {
	w := newWorld(t, judged)
	w.s.Set.MinReady = time.Minute
	w.pods(func(p *rollout.Pod) { p.ReadySince = noon.Add(-age) })
	return w
}

// pods changes each pod.
func (w *world) pods(change func(p *rollout.Pod)) {
	for i := range w.s.Nodes {
		for k := range w.s.Nodes[i].Pods {
			change(&w.s.Nodes[i].Pods[k])
		}
	}
}

// hangs lets the canary begin, and the revision never get ready on two of its three nodes, of which one may fail.
func (w *world) hangs(revision int) {
	w.t.Helper()
	w.want("abc", v1alpha1.PhaseRolling, "canary")
	w.fails("b", hangs)
	w.fails("c", hangs)
	for range 12 {
		w.pass(time.Minute)
		if strings.Trim(w.have(revision), "abc") != "" {
			return
		}
		w.roll()
	}
}

// wantFailed requires that the revision fails in the canary, and that all nodes return.
func (w *world) wantFailed(revision int) {
	w.t.Helper()
	w.hangs(revision)
	if f := w.last.Failure; f == nil || f.Wave != "canary" || w.have(revision) != "" {
		w.t.Errorf("%q have the revision; failure %+v, not ready before %q", w.have(revision), f, w.last.NotReadyBefore)
	}
}

// wantBroken requires that the revision does not fail because of some nodes, so it reaches the others.
func (w *world) wantBroken(nodes string) {
	w.t.Helper()
	w.hangs(1)
	if got := strings.Join(w.last.NotReadyBefore, ""); w.last.Failure != nil || got != nodes || w.have(1) != "abcdefghij" {
		w.t.Errorf("%q have the revision; failure %+v, not ready before %q, want %q", w.have(1), w.last.Failure, got, nodes)
	}
}

// TestAPodThatIsOnlyTooYoung: a user updates a set within minReadySeconds after its pods have become ready. They work, so the nodes are not broken: if the new revision does not work there, it fails, and the next
// wave does not begin.
func TestAPodThatIsOnlyTooYoung(t *testing.T) {
	for name, prepare := range map[string]func(w *world){
		"at once": func(w *world) { w.pass(0) },
		"after a decision about the set at rest": func(w *world) {
			w.s.Set.Update = 0
			w.pass(0)
			w.s.Set.Update = 1
			w.pass(time.Second)
		},
		"after the first pods of a new set": func(w *world) {
			w.s.Set.Update = 0
			all := w.s.Nodes
			for i := range all {
				all[i].Pods = nil
			}
			w.pass(0)
			for i := range all {
				w.put(all[i].Name, 0, false)
			}
			w.pass(time.Second)
			w.pods(func(p *rollout.Pod) { p.Ready, p.ReadySince = true, w.s.Now })
			w.pass(time.Second)
			w.s.Set.Update = 1
			w.pass(time.Second)
		},
		"while a user deletes pods": func(w *world) {
			w.s.Set.Update = 0
			w.pass(0)
			w.s.Set.Update = 1
			for _, name := range []string{"a", "b", "c"} {
				w.node(name).Pods, w.node(name).Last = nil, 0
			}
			w.pass(time.Second)
		},
		"with the next manager": func(w *world) {
			w.pass(0)
			w.lead()
			w.pass(time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := aged(t, 10*time.Second)
			prepare(w)
			w.wantFailed(1)
		})
	}
}

// TestAYoungPodThatMayBeBroken: a pod that is not ready when its update begins shows that its node is broken, and so does one whose containers were restarted: it may be ready only until the next crash.
func TestAYoungPodThatMayBeBroken(t *testing.T) {
	for name, change := range map[string]func(p *rollout.Pod){
		"not ready": func(p *rollout.Pod) { p.Ready = false },
		"restarted": func(p *rollout.Pod) { p.Restarts = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			w := aged(t, 10*time.Second)
			change(&w.node("b").Pods[0])
			change(&w.node("c").Pods[0])
			w.pass(0)
			w.wantBroken("bc")
		})
	}
}

// TestAVersionSoonAfterAnother: a user sets the next version before the canary of the last one is available. A failure of the next one counts on these nodes, too.
func TestAVersionSoonAfterAnother(t *testing.T) {
	w := aged(t, time.Hour)
	w.pass(0)
	w.want("abc", v1alpha1.PhaseRolling, "canary")
	w.pass(10 * time.Second)
	w.change("v3")
	w.pass(time.Second)
	w.wantFailed(2)
}
