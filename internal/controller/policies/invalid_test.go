// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"strings"
	"testing"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
)

// TestAnalysesAreChecked: a policy with an analysis that cannot be measured is stalled, and says which field is wrong.
func TestAnalysesAreChecked(t *testing.T) {
	p := agentsPolicy()
	p.Object["spec"].(map[string]any)["analyses"] = []any{map[string]any{"name": "errors", "provider": "main", "success": "result <"}}
	b := newBench(t, nil, p)
	b.until("the policy is read", func() bool { return len(b.Of(agents).Policies) == 1 })
	b.Report(agents, b.Of(agents).Policies, &v1alpha1.SetStatus{APIVersion: "apps/v1", Name: "agents", Phase: v1alpha1.PhaseComplete}, nil)
	b.until("the status is written", func() bool { return len(b.written()) > 0 })
	if got := b.written()[0]; !strings.Contains(got, `"reason":"Invalid","message":"spec.analyses[0].success: bad"`) {
		t.Error(got)
	}
}

// TestPolicyThatCannotBeDecoded applies to its targets, so that they are held. What its status remembers counts, if that can be decoded.
func TestPolicyThatCannotBeDecoded(t *testing.T) {
	for name, status := range map[string]map[string]any{
		"no status": nil,
		"a status":  {"sets": []any{map[string]any{"apiVersion": "apps/v1", "name": "agents", "committedRevision": "r1"}}},
		"no state":  {"sets": "nonsense"},
	} {
		p := agentsPolicy("unreachableAfter", "99999999999999999999h")
		p.Object["spec"].(map[string]any)["concurrencyGroup"] = map[string]any{"name": "network", "scope": "Zone"}
		if status != nil {
			p.Object["status"] = status
		}
		b := newBench(t, nil, p)
		b.until("the policy is read", func() bool { return len(b.Of(agents).Policies) == 1 })
		of := b.Of(agents)
		if got := of.Policies[0].Problems; len(got) != 1 || !strings.HasPrefix(got[0], "spec: ") {
			t.Errorf("%s: %q", name, got)
		}
		if got := b.Grouped("ns"); len(got) != 1 || *got[0].Group != (policy.Group{Name: "network", Scope: policy.ScopeZone}) {
			t.Errorf("%s: other sets of its group do not wait for an update of it that has begun", name)
		}
		if (of.Stored != nil && of.Stored.CommittedRevision == "r1") != (name == "a status") {
			t.Errorf("%s: %+v", name, of.Stored)
		}
	}
}
