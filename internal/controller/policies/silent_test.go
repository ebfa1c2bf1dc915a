// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
)

// TestASetThatReportsNothing: a set about which nothing can be reported, for example because its ControllerRevision cannot be written, or because another controller of its kind is active,
// does not keep the status of the other sets of its policy from being written. Its own entry stays as it is stored; without one, the policy is not ready.
func TestASetThatReportsNothing(t *testing.T) {
	other, young := policy.Set{Namespace: "ns", Name: "other"}, policy.Set{Namespace: "ns", Name: "young"}
	s := New(Options{
		Clock: clock.RealClock{}, Changed: func(string) {}, Check: func(*v1alpha1.RolloutPolicy) []string { return nil },
		Selected: func(*policy.Policy) ([]policy.Set, bool) { return []policy.Set{agents, other, young}, true },
	})
	p := &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid-p"}}
	p.Spec.Targets = []v1alpha1.Target{{APIVersion: "apps/v1", Kind: "DaemonSet", Selector: &metav1.LabelSelector{}}}
	for _, set := range []policy.Set{agents, other} {
		p.Status.Sets = append(p.Status.Sets, v1alpha1.SetStatus{APIVersion: "apps/v1", Name: set.Name, Phase: v1alpha1.PhaseComplete, TargetRevision: set.Name + "-1", CommittedRevision: set.Name + "-1"})
	}
	s.put(p, "")
	s.setKnown(v1alpha1.ResourcePolicies)
	s.setKnown(v1alpha1.ResourceApprovals)
	of := s.Of(agents).Policies
	status := func() (v1alpha1.RolloutPolicyStatus, bool) {
		e := s.policies["ns"]["p"]
		return s.statusOf(e.object, e.read, e.sets)
	}
	s.Report(agents, of, &v1alpha1.SetStatus{APIVersion: "apps/v1", Name: "agents", Phase: v1alpha1.PhaseComplete, TargetRevision: "agents-2", CommittedRevision: "agents-2"}, nil)
	s.Report(agents, of, nil, nil) // what was reported before still counts
	s.Report(other, of, nil, nil)
	if _, complete := status(); complete {
		t.Error("the status does not wait for the first pass of a set")
	}
	s.Report(young, of, nil, nil)
	is, complete := status()
	if !complete || len(is.Sets) != 2 || is.Sets[0].CommittedRevision != "agents-2" || is.Sets[1].CommittedRevision != "other-1" {
		t.Errorf("what is reported of agents is not written (complete %t): %+v", complete, is.Sets)
	}
	if c := meta.FindStatusCondition(is.Conditions, v1alpha1.ConditionReady); c == nil || c.Status != metav1.ConditionFalse || c.Message != "young: nothing is known of it yet" {
		t.Errorf("%+v", c)
	}
	if all := s.Policies(); len(all) != 1 || len(all[0].Status.Sets) != 1 {
		t.Errorf("the metrics have %+v", all)
	}
	s.Report(other, nil, nil, nil) // it is gone
	if _, had := s.policies["ns"]["p"].sets[setName{name: "other"}]; had {
		t.Error("a set that is gone is remembered")
	}
}
