// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
)

// A Pass counts for the interval and a minute more, which is the longest timeout. Then the answer is not known until there is another one, whatever keeps the
// measurement from ending.
func TestAPassBecomesOld(t *testing.T) {
	w := observed(t, analysed)
	w.answer("errors", passes)
	w.pass(time.Second)
	w.pass(2*time.Minute - time.Second)
	if as := w.last.Analyses[0]; as.Answer != passes || as.UnknownFor != nil || w.last.Waves[0].Soaked.Duration != 2*time.Minute-time.Second {
		t.Errorf("after 1m59s: %+v, soaked for %s", as, w.last.Waves[0].Soaked.Duration)
	}
	if w.out.Wake > w.s.Now.Add(time.Second) {
		t.Errorf("the next decision is in %s", w.out.Wake.Sub(w.s.Now))
	}
	w.pass(time.Second)
	want := "The wave canary is complete, and does not pass before its analyses do. The analysis errors has had no answer for 2m0s, and an older Pass does not count."
	if as := w.last.Analyses[0]; as.Answer != unknown || as.UnknownFor == nil || w.last.Blocking[0].Message != want {
		t.Errorf("after 2m: %+v, blocking %+v", as, w.last.Blocking)
	}
	for range 60 {
		w.pass(30 * time.Second)
		if w.last.Phase != v1alpha1.PhaseSoaking && w.last.Phase != v1alpha1.PhaseStalled {
			t.Fatalf("in phase %s %s after the only measurement", w.last.Phase, w.s.Now.Sub(noon))
		}
	}
	w.want("", v1alpha1.PhaseStalled, "canary")
	w.answer("errors", passes)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	if got := w.last.Waves[0].Soaked.Duration; got != 2*time.Minute-time.Second {
		t.Errorf("it has soaked for %s", got)
	}
	w.passing("errors", 9*time.Minute)
	w.want("defghij", v1alpha1.PhaseRolling, "remaining")
}

// A Pass of which the last decision has not asked again is too old: nothing was measured in between.
func TestAPassBeforeAPauseIsOld(t *testing.T) {
	w := observed(t, analysed)
	w.answer("errors", passes)
	w.pass(time.Second)
	w.memory = &policy.Memory{}
	w.pass(time.Second)
	if as := w.last.Analyses[0]; as.Answer != unknown {
		t.Errorf("the status is %+v", as)
	}
}

// While the revision of the template is not known, nothing is measured: a Pass and the answer that no alert is firing do not count after that.
func TestAPassBeforeAnUnknownRevisionIsOld(t *testing.T) {
	w := observed(t, analysed)
	w.policies = []*policy.Policy{read(t, analysed+"blockOnAlerts: {provider: main}\n")}
	w.pass(time.Second)
	w.answer("errors", passes)
	w.answer("", passes)
	w.pass(time.Second)
	if as, alerts := w.last.Analyses[0], w.last.Alerts; as.Answer != passes || alerts.Answer != passes {
		t.Fatalf("%+v, %+v", as, alerts)
	}
	last := w.last
	w.s.Set.Update = -1
	for range 60 {
		w.pass(time.Minute)
		w.last = last // nothing was reported
	}
	w.s.Set.Update = 1
	w.pass(time.Second)
	if as, alerts := w.last.Analyses[0], w.last.Alerts; as.Answer != unknown || alerts.Answer != unknown {
		t.Errorf("an hour after the only measurement: %+v, %+v", as, alerts)
	}
}
