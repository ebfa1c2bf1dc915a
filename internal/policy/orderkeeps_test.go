// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// TestOrderAndStepsOfNodesThatKeepTheirPod: a node that need not run the pod, and keeps an old one, for example because of a taint, is updated with its wave: also in the turn of its zone, and within the step.
func TestOrderAndStepsOfNodesThatKeepTheirPod(t *testing.T) {
	for name, spec := range map[string]string{
		"order":  "order: {topologyKey: zone, domains: OneAtATime}",
		"growth": "waves: [{name: all, nodes: {selector: {matchLabels: {all: 'true'}}}, growth: {start: 1, factor: 2}}]",
	} {
		w := newWorld(t, spec)
		for i, name := range strings.Split("abcdefghij", "") {
			w.labels[name] = map[string]string{"zone": string(rune('1' + i/5)), "all": "true"}
		}
		for name := range strings.SplitSeq("hij", "") {
			w.node(name).Fit = rollout.MayStay
		}
		w.pass(0)
		if got := w.roll(); strings.ContainsAny(got, "hij") {
			t.Errorf("%s: the first to start are %q: %s", name, got, w.verdicts())
		}
	}
}

// TestAZoneOfNodesThatKeepTheirPod: a zone in which no node needs the pod does not hold the next one, and does not start together with it.
func TestAZoneOfNodesThatKeepTheirPod(t *testing.T) {
	w := newWorld(t, "waves: [{name: all, soak: 1h}]\norder: {topologyKey: zone, domains: OneAtATime}")
	for i, name := range strings.Split("abcdefghij", "") {
		w.labels[name] = map[string]string{"zone": string(rune('1' + i/5))}
	}
	for name := range strings.SplitSeq("abcde", "") {
		w.node(name).Fit = rollout.MayStay
	}
	w.pass(0)
	w.want("fghij", v1alpha1.PhaseRolling, "all")
	w.put("f", 1, false)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseRolling, "all")
	w.put("f", 1, true)
	w.pass(time.Second)
	w.want("abcde", v1alpha1.PhaseSoaking, "all")
}
