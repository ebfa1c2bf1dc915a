// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"testing"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// BenchmarkDecide reports the cost per node of ten waves over 100,000 nodes in the middle of a rollout.
func BenchmarkDecide(b *testing.B) {
	const nodes = 100000
	spec := v1alpha1.RolloutPolicySpec{Targets: []v1alpha1.Target{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent"}}}
	for i := range 9 {
		percent := int32(10 * (i + 1))
		spec.Waves = append(spec.Waves, v1alpha1.Wave{Name: fmt.Sprint("w", i), Nodes: v1alpha1.WaveNodes{Percent: &percent}})
	}
	p := &v1alpha1.RolloutPolicy{Spec: spec}
	in := &policy.Input{
		Snapshot: &rollout.Snapshot{
			Now: noon, Set: rollout.Set{Strategy: rollout.RollingUpdate, Update: 1},
			Revisions: []rollout.Revision{{Name: "v1", Number: 1}, {Name: "v2", Number: 2, Created: noon}},
		},
		Labels: make([]map[string]string, nodes), Set: policy.Set{Name: "agent"}, Policies: []*policy.Policy{policy.Read(p)},
		Revisions: []policy.Revision{{Name: "agent-v1", Committed: 1}, {Name: "agent-v2", Same: 1}},
	}
	for i := range nodes {
		pod := rollout.Pod{Name: "p", Revision: (nodes - i) * 2 / (nodes + 1), Phase: rollout.Running, Ready: true}
		in.Snapshot.Nodes = append(in.Snapshot.Nodes, rollout.Node{Name: fmt.Sprintf("n%06d", i), Fit: rollout.MustRun, Ready: true, Pods: []rollout.Pod{pod}})
	}
	b.ReportAllocs()
	for b.Loop() {
		policy.Decide(in)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/nodes, "ns/node")
}
