// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"
)

// A policy whose analyses or alerts have a provider that is missing, or has been renamed, keeps no nodes on a revision that has failed: an undo asks no provider. With another
// problem, nothing starts.
func TestUndoWhileAProviderIsMissing(t *testing.T) {
	for problem, undoes := range map[string]bool{
		`spec.analyses[0].provider: the manager has no provider with the name "main"`:            true,
		`spec.blockOnAlerts.provider: the manager has no provider with the name "main"`:          true,
		`spec.waves[0].analysis[0]: "errors" is the name of no entry of spec.analyses`:           true,
		`spec.waves[0].nodes.selector: spec.analyses[0].provider is no operator of a selector`:   false,
		`spec: the policy cannot be read: spec.waves[0].analysis[0]: Invalid value: "number"`:    false,
		`spec.undo.maxUnavailable: "x" is neither a number nor a percentage, as "spec.analyses"`: false,
	} {
		w := canary(t, judgedStrictly())
		w.fails("a", pulls)
		w.pass(time.Second)
		w.policies[0].Problems = []string{problem}
		for range 20 {
			w.pass(time.Minute)
			w.roll()
		}
		if got := w.have(1); (got == "") != undoes {
			t.Errorf("%s: %q have the revision that has failed: %s %+v", problem, got, w.last.Phase, w.last.Blocking)
		}
	}
}
