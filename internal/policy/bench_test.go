// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// BenchmarkDecide reports the cost per node of policies over 100,000 nodes in the middle of a rollout: ten waves, a wave that grows by one node at a time, and nodes
// that are updated one after the other.
func BenchmarkDecide(b *testing.B) {
	all, one := int32(100), int32(1)
	for name, spec := range map[string]v1alpha1.RolloutPolicySpec{
		"waves":  tenWaves(),
		"growth": {Waves: []v1alpha1.Wave{{Name: "all", Nodes: v1alpha1.WaveNodes{Percent: &all}, Growth: &v1alpha1.Growth{Start: intstr.FromInt32(1), Factor: &one}}}},
		"order":  {Order: &v1alpha1.Order{TopologyKey: hostname, Domains: v1alpha1.OneAtATime}},
	} {
		b.Run(name, func(b *testing.B) { decide(b, spec) })
	}
}

// tenWaves are nine waves of the specification, and one for the remaining nodes.
func tenWaves() (spec v1alpha1.RolloutPolicySpec) {
	for i := range 9 {
		percent := int32(10 * (i + 1))
		spec.Waves = append(spec.Waves, v1alpha1.Wave{Name: fmt.Sprint("w", i), Nodes: v1alpha1.WaveNodes{Percent: &percent}})
	}
	return spec
}

const hostname = "kubernetes.io/hostname"

// TestAllocations: a decision of a policy of ten waves allocates no more often with ten times as many nodes, but for slices that grow.
func TestAllocations(t *testing.T) {
	of := func(nodes int) float64 {
		in := halfway(tenWaves(), nodes)
		return testing.AllocsPerRun(10, func() { policy.Decide(in) })
	}
	if few, many := of(1000), of(10000); many > few+10 {
		t.Errorf("%v allocations with 1,000 nodes, %v with 10,000", few, many)
	}
}

func decide(b *testing.B, spec v1alpha1.RolloutPolicySpec) {
	b.Helper()
	const nodes = 100000
	in := halfway(spec, nodes)
	b.ReportAllocs()
	for b.Loop() {
		policy.Decide(in)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/nodes, "ns/node")
}

// halfway is a rollout under a policy that half of the nodes have behind them, after its first decision.
func halfway(spec v1alpha1.RolloutPolicySpec, nodes int) *policy.Input {
	spec.Targets = []v1alpha1.Target{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent"}}
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
		name := fmt.Sprintf("n%06d", i)
		in.Labels[i] = map[string]string{hostname: name}
		in.Snapshot.Nodes = append(in.Snapshot.Nodes, rollout.Node{Name: name, Fit: rollout.MustRun, Ready: true, Pods: []rollout.Pod{pod}})
	}
	first := policy.Decide(in)
	in.Last, in.Memory = first.Status, first.Memory
	return in
}
