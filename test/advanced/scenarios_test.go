// SPDX-License-Identifier: Apache-2.0

package advanced

import (
	"slices"
	"testing"
)

// fewest is how many scenarios there are at least, and smokes how many of them are played by make test.
const fewest, smokes = 60, 11

// scenarios is the table of all scenarios.
func scenarios() []scenario {
	return slices.Concat(sampleScenarios(), apiScenarios(), rejectScenarios(), standardScenarios(), eligibilityScenarios(),
		limitScenarios(), progressiveScenarios(), inPlaceScenarios(), hookScenarios(), historyScenarios(), statusScenarios(), lifeScenarios(), drainScenarios(), gitopsScenarios(), neighbourScenarios())
}

// TestScenarios plays all scenarios, many at a time.
func TestScenarios(t *testing.T) {
	for _, sc := range scenarios() {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			play(t, cluster(t), sc)
		})
	}
}

// TestSmoke plays a few of the scenarios.
func TestSmoke(t *testing.T) {
	for _, sc := range scenarios() {
		if sc.smoke {
			t.Run(sc.name, func(t *testing.T) {
				t.Parallel()
				play(t, cluster(t), sc)
			})
		}
	}
}

// TestTable: there are as many scenarios as promised, under different names.
func TestTable(t *testing.T) {
	names, smoke := map[string]bool{}, 0
	for _, sc := range scenarios() {
		if names[sc.name] || sc.name == "" || sc.nodes < 1 {
			t.Errorf("scenario %q: its name is taken, or it has no nodes", sc.name)
		}
		names[sc.name] = true
		if sc.smoke {
			smoke++
		}
	}
	if len(names) < fewest || smoke != smokes {
		t.Errorf("%d scenarios of which %d are for the smoke test, want at least %d and exactly %d", len(names), smoke, fewest, smokes)
	}
}
