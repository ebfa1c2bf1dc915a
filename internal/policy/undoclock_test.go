// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
)

// TestAnUndoWhereTheClockIsSlow: the clock of the manager is an hour behind that of the API server, so pods that the undo has never touched look younger than the failure. Their restarts do not
// stop the undo, whichever manager sees them; those of pods that it has created do.
func TestAnUndoWhereTheClockIsSlow(t *testing.T) {
	ahead := time.Hour
	for name, c := range map[string]struct{ lead, ours bool }{
		"an untouched pod": {}, "an untouched pod, under another manager": {lead: true}, "a pod of the undo": {ours: true}, "a pod of the undo, under another manager": {lead: true, ours: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := canary(t, judgedStrictly())
			for i := range w.s.Nodes {
				w.s.Nodes[i].Pods[0].Created = w.s.Now.Add(ahead)
			}
			w.fails("a", pulls)
			w.pass(time.Second)
			w.pass(time.Second)
			w.fails("b", pulls) // so the undo has not ended
			w.fails("c", pulls)
			w.put("a", 0, true)
			p := &w.node("a").Pods[0]
			p.UID, p.Created = "new", w.s.Now.Add(ahead+time.Second)
			if c.lead {
				w.pass(time.Second)
				w.lead()
			}
			w.pass(time.Second)
			broken := "d"
			if c.ours {
				broken = "a"
			}
			w.node(broken).Pods[0].Restarts = 9
			if c.lead {
				w.lead()
			}
			w.pass(time.Second)
			if stopped := policy.UndoStopped(w.last); stopped != c.ours {
				t.Errorf("phase %s: %+v", w.last.Phase, w.last.Blocking)
			}
		})
	}
}

// TestAnUndoByTheTemplateWhereTheClockIsSlow: the status has no failure then, and when that was is known by the clock of the API server all the same.
func TestAnUndoByTheTemplateWhereTheClockIsSlow(t *testing.T) {
	w := changedBack(t, judgedStrictly())
	for i := range w.s.Nodes {
		w.s.Nodes[i].Pods[0].Created = w.s.Now.Add(time.Hour)
	}
	at := metav1.NewTime(time.Unix(0, int64(w.s.Now.Add(time.Hour))))
	w.last.Failure.NewestPod = &at
	w.pass(time.Second)
	w.lead()
	w.pass(time.Second)
	w.node("d").Pods[0].Restarts = 9
	w.lead()
	w.pass(time.Second)
	if policy.UndoStopped(w.last) || w.last.Phase != v1alpha1.PhaseUndoing {
		t.Errorf("phase %s: %+v", w.last.Phase, w.last.Blocking)
	}
}
