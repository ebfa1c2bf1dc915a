// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
)

// TestNoEffect: the reason is the first thing that the decision names and that does not exist. Daemon sets of two kinds can have the same name.
func TestNoEffect(t *testing.T) {
	p := read(t, "waves: [{name: canary, nodes: {count: 1}}]")
	native, advanced, other, silent := policy.Set{Name: "agent"}, policy.Set{Name: "agent", Advanced: true}, policy.Set{Name: "other"}, policy.Set{Name: "agent", Namespace: "silent"}
	idle := policy.Set{Name: "agent", Namespace: "idle"}
	last := func(set policy.Set) *v1alpha1.SetStatus {
		switch {
		case set.Namespace == "idle":
			return &v1alpha1.SetStatus{}
		case set.Namespace != "":
			return nil
		case set.Name == "other":
			return &v1alpha1.SetStatus{TargetRevision: "agent-v4"}
		case set.Advanced:
			return &v1alpha1.SetStatus{TargetRevision: "agent-v2"}
		default:
			return &v1alpha1.SetStatus{TargetRevision: "agent-v1"}
		}
	}
	about := func(change func(spec *v1alpha1.RolloutApprovalSpec)) *v1alpha1.RolloutApproval {
		a := &v1alpha1.RolloutApproval{Spec: v1alpha1.RolloutApprovalSpec{Policy: "agents", Set: "agent", Wave: "canary", Revision: "agent-v2", Decision: v1alpha1.Promote}}
		change(&a.Spec)
		return a
	}
	as := func(*v1alpha1.RolloutApprovalSpec) {}
	for name, c := range map[string]struct {
		change func(spec *v1alpha1.RolloutApprovalSpec)
		p      *policy.Policy
		sets   []policy.Set
		want   string
	}{
		"all exists":          {as, p, []policy.Set{advanced, native, other}, ""},
		"no policy":           {as, nil, nil, "The namespace has no RolloutPolicy agents (spec.policy)."},
		"no set":              {as, p, []policy.Set{other}, "The RolloutPolicy agents applies to no daemon set agent (spec.set)."},
		"no revision":         {as, p, []policy.Set{native, other}, "The template of the daemon set agent does not describe a revision agent-v2 (spec.revision)."},
		"another set's":       {func(s *v1alpha1.RolloutApprovalSpec) { s.Revision = "agent-v4" }, p, []policy.Set{native, advanced, other}, "does not describe a revision agent-v4"},
		"no wave":             {func(s *v1alpha1.RolloutApprovalSpec) { s.Wave = "what" }, p, []policy.Set{advanced}, "The RolloutPolicy agents has no wave what (spec.wave)."},
		"a rejection":         {func(s *v1alpha1.RolloutApprovalSpec) { s.Wave, s.Decision = "what", v1alpha1.Reject }, p, []policy.Set{advanced}, ""},
		"no template":         {as, p, []policy.Set{idle}, "unknown"},
		"nothing is known":    {as, p, []policy.Set{silent}, "unknown"},
		"nothing of a twin's": {as, p, []policy.Set{native, silent}, "unknown"},
	} {
		got, known := policy.NoEffect(about(c.change), c.p, c.sets, last)
		switch {
		case c.want == "unknown" && known, c.want != "unknown" && !known, c.want == "" && got != "", c.want != "unknown" && !strings.Contains(got, c.want):
			t.Errorf("%s: %q, known %t, want %q", name, got, known, c.want)
		}
	}
}
