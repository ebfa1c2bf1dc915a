// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// TestNothingBegins: a wave in which nothing may start has not begun, whatever keeps it from that. What has begun stays so.
func TestNothingBegins(t *testing.T) {
	const spec = "waves: [{name: canary, nodes: {count: 2}, soak: 10s}]\n"
	for name, c := range map[string]struct {
		more    string
		prepare func(*world)
		allow   func(*world)
	}{
		"suspended": {"suspend: true", nil, func(w *world) { w.policies[0].Suspend = false }},
		"no window": {"windows: [{schedule: '0 9 * * *', duration: 1h}]", nil, func(w *world) { w.policies[0].Windows = nil }},
		"frozen":    {"freezes: [{from: '2027-01-01T00:00:00Z', to: '2027-02-01T00:00:00Z'}]", nil, func(w *world) { w.policies[0].Freezes = nil }},
		"paused":    {"", func(w *world) { w.s.Set.Paused = true }, func(w *world) { w.s.Set.Paused = false }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, spec+c.more)
			stop := *w.policies[0]
			if c.prepare != nil {
				c.prepare(w)
			}
			for range 2 {
				w.pass(time.Second)
				if s := w.wave("canary"); w.roll() != "" || s.Phase != v1alpha1.WavePending || s.RollingSince != nil || slices.Contains(w.events, policy.ReasonWaveStarted) {
					t.Fatalf("%+v, events %v", s, w.events)
				}
			}
			w.s.Set.MaxUnavailable.Value = 1
			c.allow(w)
			w.pass(time.Second)
			w.want("a", v1alpha1.PhaseRolling, "canary")
			if s := w.wave("canary"); s.Phase != v1alpha1.WaveRolling || !slices.Contains(w.events, policy.ReasonWaveStarted) {
				t.Errorf("%+v, events %v", s, w.events)
			}
			*w.policies[0] = stop
			if c.prepare != nil {
				c.prepare(w)
			}
			w.pass(time.Second)
			if s := w.wave("canary"); s.Phase != v1alpha1.WaveRolling {
				t.Errorf("after the start of a node: %+v", s)
			}
		})
	}
}

// TestSuspendedAtRest: a policy that is suspended while nothing is to be updated is ready.
func TestSuspendedAtRest(t *testing.T) {
	w := newWorld(t, "suspend: true")
	w.s.Set.Update = 0
	w.pass(0)
	w.want("", v1alpha1.PhaseComplete, "")
	w.put("a", 0, false) // a pod that is broken is no update either
	w.pass(0)
	w.want("", v1alpha1.PhaseComplete, "")
	after := w.policies[0].Conditions(nil, []v1alpha1.SetStatus{*w.out.Status}, nil, metav1.Now())
	if !meta.IsStatusConditionTrue(after, v1alpha1.ConditionReady) {
		t.Errorf("%+v", after)
	}
	w.put("b", 1, true)
	w.pass(0)
	w.want("", v1alpha1.PhaseSuspended, "")
}

// TestNodesThatOnlyKeepTheirPodAtRest: a suspension and a freeze hold also the return of a node that may only keep the pod that it has. The set is complete without it.
func TestNodesThatOnlyKeepTheirPodAtRest(t *testing.T) {
	for _, spec := range []string{"suspend: true", "freezes: [{from: '2027-01-01T00:00:00Z', to: '2027-02-01T00:00:00Z'}]"} {
		w := newWorld(t, spec)
		w.s.Set.Update = 0
		w.put("b", 1, true)
		w.node("b").Fit = rollout.MayStay
		w.pass(0)
		w.want("", v1alpha1.PhaseComplete, "")
		w.policies[0].Suspend, w.policies[0].Freezes = false, nil
		w.pass(time.Second)
		w.want("b", v1alpha1.PhaseComplete, "")
	}
}

// TestFreezeWithoutAnEndIsNotDue: a freeze until the year 9999 has no end for which anything waits.
func TestFreezeWithoutAnEndIsNotDue(t *testing.T) {
	w := newWorld(t, "{freezes: [{from: 2020-01-01T00:00:00Z, to: 9999-12-31T23:59:59Z}]}")
	w.put("a", 1, true)
	w.pass(time.Second)
	next, blocking := w.out.Status.Next, w.out.Status.Blocking
	if w.out.Wake != 0 || next == nil || next.Action != v1alpha1.ActionEndFreeze || next.At != nil || len(blocking) == 0 || !strings.Contains(blocking[0].Message, "no end in sight") {
		t.Errorf("it decides again at %d, next is %+v, and it is blocked by %+v", w.out.Wake, next, blocking)
	}
}
