// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"testing"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/cli/policies"
	"everynode.dev/everynode/internal/policy"
)

// The implicit wave for the remaining nodes is reported if there are such nodes, or if it is active: otherwise each view would show a wave of 0 nodes.
func TestTheWaveForTheRemainingNodes(t *testing.T) {
	for name, test := range map[string]struct {
		active          string
		remaining       int32
		waves, position int
	}{
		"of no node":             {"canary", 0, 1, 1},
		"of one node":            {"canary", 1, 2, 1},
		"of no node, but active": {policy.Remaining, 0, 2, 2},
		"of one node, active":    {policy.Remaining, 1, 2, 2},
		"of no node, at rest":    {"", 0, 1, 0},
	} {
		stored := &v1alpha1.SetStatus{Wave: test.active, Waves: []v1alpha1.WaveStatus{{Name: "canary", Nodes: 3}, {Name: policy.Remaining, Nodes: test.remaining}}}
		g := inspect.Governance{Policies: []*policies.Policy{{Typed: &v1alpha1.RolloutPolicy{}}}, Stored: stored}
		r := g.Report()
		if len(r.Waves) != test.waves || r.Total != test.waves || r.Position != test.position {
			t.Errorf("%s: %d waves, wave %d of %d, want wave %d of %d", name, len(r.Waves), r.Position, r.Total, test.position, test.waves)
		}
		if len(stored.Waves) != 2 {
			t.Errorf("%s: the status itself has %d waves", name, len(stored.Waves))
		}
	}
	own := inspect.Governance{Policies: []*policies.Policy{{Typed: &v1alpha1.RolloutPolicy{}}}, Stored: &v1alpha1.SetStatus{Waves: []v1alpha1.WaveStatus{{Name: "empty"}}}}
	if r := own.Report(); len(r.Waves) != 1 {
		t.Error("a wave of the specification that has no nodes is not reported")
	}
}
