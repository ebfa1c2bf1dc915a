// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestPolicyOfALaterVersion: a field of the specification that this version does not know may forbid what it would do, so the policy applies and is not followed. A later
// version may write into the status what it likes.
func TestPolicyOfALaterVersion(t *testing.T) {
	with := func(field string, value any) *unstructured.Unstructured {
		p := agentsPolicy()
		p.Object["spec"].(map[string]any)[field] = value
		return p
	}
	nested := with("waves", []any{map[string]any{"name": "canary", "nodes": map[string]any{"count": int64(1)}, "judge": "main"}})
	known := with("suspend", true)
	known.Object["status"] = map[string]any{"weather": "good", "sets": []any{map[string]any{"apiVersion": "apps/v1", "name": "agents", "committedRevision": "r1", "mood": "good"}}}
	for _, c := range []struct {
		policy  *unstructured.Unstructured
		problem string
	}{
		{with("quorum", int64(2)), `this version of the manager does not know all fields: unknown field "spec.quorum"; update the manager, or remove them`},
		{nested, `this version of the manager does not know all fields: unknown field "spec.waves[0].judge"; update the manager, or remove them`},
		{known, ""},
	} {
		b := newBench(t, nil, c.policy)
		b.until("the policy is read", func() bool { return len(b.Of(agents).Policies) == 1 })
		of := b.Of(agents)
		if got := strings.Join(of.Policies[0].Problems, "; "); got != c.problem {
			t.Errorf("the problem is %q, want %q", got, c.problem)
		}
		if c.problem == "" && (of.Stored == nil || of.Stored.CommittedRevision != "r1") {
			t.Errorf("what it remembers is %+v", of.Stored)
		}
	}
}
