// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	rollouts "everynode.dev/everynode/internal/policy"
)

// emptyOp is that a user removes the pods of a set of which no node needs one, as docs/rollout-policy.md says: without its waves. Until then such a rollout waits, for its template may be a mistake. It is nil while a node needs a pod, no
// node has one that must leave it, or the status does not report that wait: a node that keeps its pod then is blamed.
func (s *sim) emptyOp(p *v1alpha1.RolloutPolicy) *op {
	all := s.everything()
	misplaced := slices.ContainsFunc(s.w.nodes(), func(n *corev1.Node) bool { return all.fit(n.Name) == mustLeave && len(s.podsOn(n.Name)) > 0 })
	reported := slices.ContainsFunc(p.Status.Sets, func(st v1alpha1.SetStatus) bool {
		return st.Phase == v1alpha1.PhaseStalled && slices.ContainsFunc(st.Blocking, func(b v1alpha1.Blocking) bool { return b.Reason == rollouts.NoNodeEligible })
	})
	if all.desired() > 0 || !misplaced || !reported || len(p.Spec.Waves) == 0 {
		return nil
	}
	return &op{"a user takes the waves away, because no node needs a pod", 1, func() {
		s.editPolicy(func(spec *v1alpha1.RolloutPolicySpec) { spec.Waves = nil })
	}}
}

// TestOnlyTheStallWithoutNodesIsExcused: a node that keeps a pod that it must not have is blamed, unless no node needs a pod and the status reports that the rollout waits for that reason.
func TestOnlyTheStallWithoutNodesIsExcused(t *testing.T) {
	stalled := v1alpha1.SetStatus{Phase: v1alpha1.PhaseStalled, Blocking: []v1alpha1.Blocking{{Reason: rollouts.NoNodeEligible}}}
	other := v1alpha1.SetStatus{Phase: v1alpha1.PhaseStalled, Blocking: []v1alpha1.Blocking{{Reason: "EmptyWave"}}}
	for name, c := range map[string]struct {
		pools   []string // of the nodes n1 and n2; the template wants pool b
		status  v1alpha1.SetStatus
		excused bool
	}{
		"no node needs a pod":                   {[]string{"a", "a"}, stalled, true},
		"another reason":                        {[]string{"a", "a"}, other, false},
		"no reason":                             {[]string{"a", "a"}, v1alpha1.SetStatus{}, false},
		"a node needs one":                      {[]string{"a", "b"}, stalled, false},
		"no node has one that it must not have": {[]string{"b", "b"}, stalled, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSim(context.Background(), config{dialect: nativeRun, nodes: 2, unavailable: "1", surge: "0", faults: []string{"rollouts", "templates", "nodes", "users"}, rollout: "1:20"})
				defer s.close()
				s.rollOut()
				s.w.editSet(func(spec map[string]any) { wantPool(spec, "b") })
				for i, n := range s.w.nodes() {
					s.w.changeNode(n, func(n *corev1.Node) { n.Labels[poolLabel] = c.pools[i] })
				}
				p := s.w.rolloutPolicy().DeepCopy()
				p.Status.Sets = []v1alpha1.SetStatus{c.status}
				if got := s.emptyOp(p) != nil; got != c.excused {
					t.Errorf("%t, want %t", got, c.excused)
				}
			})
		})
	}
}
