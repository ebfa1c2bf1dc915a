// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
)

// TestAStallForgetsNoWave: a wave that selects no node, and comes before others that have passed, stops the rollout, and they have passed all the same.
func TestAStallForgetsNoWave(t *testing.T) {
	const waves = "{name: first, nodes: {count: 1}, soak: 1h}, {name: second, nodes: {count: 1}}]"
	w := newWorld(t, "waves: ["+waves)
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "first")
	w.put("a", 1, true)
	w.pass(0)
	w.pass(time.Hour)
	w.want("b", v1alpha1.PhaseRolling, "second")
	fine := w.policies
	w.policies = []*policy.Policy{read(t, "waves: [{name: empty, nodes: {selector: {matchLabels: {pool: none}}}}, "+waves)}
	w.pass(time.Minute)
	w.want("", v1alpha1.PhaseStalled, "empty")
	if got := w.wave("first"); got.Phase != v1alpha1.WavePassed || got.Updated != 1 {
		t.Errorf("the first wave is %+v", got)
	}
	if n := len(w.out.Status.Waves); n != 4 {
		t.Errorf("the status has %d waves: %+v", n, w.out.Status.Waves)
	}
	w.lead() // the next manager knows only the status
	w.policies = fine
	w.pass(time.Minute)
	w.want("cdefghij", v1alpha1.PhaseRolling, "remaining")
}

// TestAFailureBeforeAWaveThatStalls: a wave has passed, and the next one cannot begin because no node has its label. When the revision fails on the nodes of the first wave, the status
// reports the failure, and the nodes return. The same holds for nodes of a later wave that has passed.
func TestAFailureBeforeAWaveThatStalls(t *testing.T) {
	const gpu = "{name: gpu, nodes: {selector: {matchLabels: {gpu: 'true'}}}}"
	for name, waves := range map[string]string{"the wave before": "canary, " + gpu, "a later wave": gpu + ", canary"} {
		t.Run(name, func(t *testing.T) {
			spec := func(waves string) string {
				return "waves: [" + strings.Replace(waves, "canary", "{name: canary, nodes: {count: 3}}", 1) + "]\nfailure: {nodeDeadline: 5m, waitingReasons: [ImagePullBackOff], action: Undo}\n"
			}
			w := newWorld(t, spec("canary, {name: next, nodes: {}}"))
			w.pass(0)
			w.want("abc", v1alpha1.PhaseRolling, "canary")
			w.policies[0] = read(t, spec(waves))
			w.pass(time.Second)
			w.want("", v1alpha1.PhaseStalled, "gpu")
			w.fails("a", pulls)
			for range 5 {
				w.pass(time.Second)
				w.roll()
			}
			if f := w.last.Failure; f == nil || f.Wave != "canary" || w.wave("gpu").Phase != v1alpha1.WavePending {
				t.Errorf("failure %+v although the mark is %+v: phase %s, blocking %+v, wave %+v", f, w.failed[1], w.last.Phase, w.last.Blocking, w.wave("gpu"))
			}
			if nodes := w.have(1); nodes != "" {
				t.Errorf("nodes %s still have the revision that has failed", nodes)
			}
		})
	}
}
