// SPDX-License-Identifier: Apache-2.0

package policyinput_test

import (
	"slices"
	"testing"

	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/policyinput"
	"everynode.dev/everynode/internal/revision"
	"everynode.dev/everynode/internal/rollout"
)

// TestRevisions: a duplicate of the current revision is the same as it, and foreign may be shorter than the history.
func TestRevisions(t *testing.T) {
	h := &clustercache.Resolved{
		Entries:    []revision.Entry{{Name: "a-1", Hash: "1"}, {Name: "a-2", Hash: "2"}, {Name: "a-3", Hash: "3"}},
		Revisions:  []clustercache.Revision{{}, {Committed: 4}, {}},
		Resolution: revision.Resolution{Current: 1, Duplicates: []int{2}},
	}
	all := policyinput.Revisions(&dialect.Workload{}, h, []bool{true}, policyinput.Digests(h))
	same := []int{all[0].Same, all[1].Same, all[2].Same}
	if !slices.Equal(same, []int{0, 1, 1}) || !all[0].Foreign || all[1].Foreign || all[1].Committed != 4 || all[2].Name != "a-3" {
		t.Errorf("got %+v", all)
	}
	if !policyinput.Committed(h) || policyinput.Committed(&clustercache.Resolved{Revisions: h.Revisions[2:]}) {
		t.Error("a history is committed if one of its revisions is")
	}
}

// TestUpdatedByPolicy: the policy may limit the budget, the old Workload does not change, and a Snapshot keeps the revision that it updates to.
func TestUpdatedByPolicy(t *testing.T) {
	two := rollout.Quantity{Value: 2}
	w := &dialect.Workload{ByPolicy: &rollout.Set{Strategy: rollout.RollingUpdate, MaxUnavailable: rollout.Quantity{Value: 1}}}
	s := rollout.Snapshot{Set: rollout.Set{Strategy: rollout.OnDelete, Update: 3}}
	updated := policyinput.UpdatedByPolicy(w, &policy.Policy{})
	if updated.Set.MaxUnavailable.Value != 1 || w.Set.Strategy == rollout.RollingUpdate {
		t.Errorf("the budget is %v, and the old set is %+v", updated.Set.MaxUnavailable, w.Set)
	}
	policyinput.Respecify(&s, policyinput.UpdatedByPolicy(w, &policy.Policy{MaxUnavailable: &two}))
	if s.Set.MaxUnavailable != two || s.Set.Strategy != rollout.RollingUpdate || s.Set.Update != 3 || w.ByPolicy.MaxUnavailable == two {
		t.Errorf("the Snapshot has %+v", s.Set)
	}
}
