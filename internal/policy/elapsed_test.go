// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// soaking is a rollout of which the canary soaks for a day. For hours, nothing asks for a decision then.
func soaking(t *testing.T, inPlace bool) *world {
	t.Helper()
	w := newWorld(t, strings.Replace(judgedTwice, "soak: 1m", "soak: 24h", 1))
	w.s.Set.InPlace = inPlace
	w.pass(0)
	w.want("abc", v1alpha1.PhaseRolling, "canary")
	w.pass(time.Second)
	w.pass(20 * time.Minute)
	return w
}

// wantNoFailure fails if the revision has failed.
func (w *world) wantNoFailure() {
	w.t.Helper()
	if w.last.Failure != nil || w.last.Phase == v1alpha1.PhaseFailed {
		w.t.Errorf("phase %s, failure %+v", w.last.Phase, w.last.Failure)
	}
}

// What an event shows says nothing about the time since the last decision, which may be long: of that, only what the last decision saw counts for nodeDeadline.
func TestTheTimeBeforeAnEventDoesNotCount(t *testing.T) {
	for name, happens := range map[string]func(w *world){
		"a node is down for long, and its pod is not ready yet when it returns": func(w *world) {
			w.fails("a", hangs)
			w.node("a").Ready, w.node("a").Since = false, w.s.Now
			w.pass(time.Second)
			w.node("a").Ready, w.node("a").Since = true, w.s.Now
		},
		"a pod starts after a pull": func(w *world) {
			w.fails("a", func(p *rollout.Pod) { p.Phase, p.Pull = rollout.Pending, rollout.Pulls })
			w.pass(time.Second)
			w.node("a").Pods[0].Phase, w.node("a").Pods[0].Pull = rollout.Running, rollout.NoPull
		},
		"a pod that was available is not":     func(w *world) { w.fails("a", hangs) },
		"a pod that is missing is refused":    func(w *world) { w.refusesNow("a") },
		"a pod that is missing cannot be yet": func(w *world) { w.refusesNow("a"); w.node("a").Ready = false },
	} {
		t.Run(name, func(t *testing.T) {
			for _, inPlace := range []bool{false, true} {
				w := soaking(t, inPlace)
				happens(w)
				w.pass(20 * time.Minute)
				w.wantNoFailure()
				w.node("a").Ready = true
				w.pass(time.Second)
				w.pass(4*time.Minute + 58*time.Second)
				w.wantNoFailure()
				w.pass(2 * time.Second)
				if w.last.Failure == nil {
					t.Errorf("in place %t: it has not failed in phase %s", inPlace, w.last.Phase)
				}
			}
		})
	}
}

// refusesNow is a node whose pod was deleted, and where the next one is refused since the last decision.
func (w *world) refusesNow(name string) {
	w.node(name).Pods, w.node(name).Last = nil, 1
	w.pass(time.Second)
	w.node(name).Refusal = &rollout.Refusal{Denied: true, Message: "no"}
}

// A pod of the committed revision that is not available for a moment does not stop an undo for which nothing has happened for long.
func TestAMomentDoesNotStopAnUndo(t *testing.T) {
	w, first := allUndone(t)
	w.put(first, 0, true)
	w.pass(time.Second)
	w.fails(first, hangs)
	w.pass(20 * time.Minute)
	if w.last.Phase != v1alpha1.PhaseUndoing {
		t.Errorf("phase %s: %+v", w.last.Phase, w.last.Blocking)
	}
}

// For the deadline of a wave, the time counts in which the last decision saw that a node lacks its pod, and that the set is not paused.
func TestTheTimeBeforeAnEventDoesNotCountForAWave(t *testing.T) {
	limited := strings.Replace(judgedTwice, "nodeDeadline: 5m", "nodeDeadline: 5h, waveDeadline: 30m", 1)
	t.Run("only a node that joins lacks its pod", func(t *testing.T) {
		w := joined(t, limited)
		w.put("j", 1, true)
		w.fails("k", hangs)
		w.pass(time.Second)
		w.fails("d", hangs)
		w.pass(time.Hour)
		w.wantNoFailure()
		w.pass(30 * time.Minute)
		w.want("", v1alpha1.PhaseFailed, "rest")
	})
	t.Run("the set was paused", func(t *testing.T) {
		w := canary(t, limited)
		w.fails("a", hangs)
		w.s.Set.Paused = true
		w.pass(time.Second)
		w.s.Set.Paused = false
		w.pass(time.Hour)
		w.wantNoFailure()
		w.pass(30 * time.Minute)
		w.want("", v1alpha1.PhaseFailed, "canary")
	})
}

// A node that was broken for long before the rollout waits until the stored status names it.
func TestABrokenNodeWaitsForTheStatusAfterAQuietTime(t *testing.T) {
	w := newWorld(t, judgedTwice)
	w.s.Set.Update = 0
	w.fails("a", hangs)
	w.pass(0)
	w.pass(time.Second)
	w.remember()
	w.s.Set.Update = 1
	w.pass(time.Hour)
	w.want("bc", v1alpha1.PhaseRolling, "canary")
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseRolling, "canary")
	w.remember()
	w.pass(time.Second)
	w.want("a", v1alpha1.PhaseRolling, "canary")
}
