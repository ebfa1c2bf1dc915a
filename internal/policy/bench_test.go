// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// BenchmarkDecide reports the cost per node of policies over 100,000 nodes in the middle of a rollout: ten waves, a wave that grows by one node at a time, nodes that
// are updated one after the other, and a wave of all nodes that soaks.
func BenchmarkDecide(b *testing.B) {
	all, one := int32(100), int32(1)
	for name, spec := range map[string]v1alpha1.RolloutPolicySpec{
		"waves":  tenWaves(),
		"growth": {Waves: []v1alpha1.Wave{{Name: "all", Nodes: v1alpha1.WaveNodes{Percent: &all}, Growth: &v1alpha1.Growth{Start: intstr.FromInt32(1), Factor: &one}}}},
		"order":  {Order: &v1alpha1.Order{TopologyKey: hostname, Domains: v1alpha1.OneAtATime}},
	} {
		b.Run(name, func(b *testing.B) { decide(b, halfway(spec, manyNodes)) })
	}
	b.Run("soak", func(b *testing.B) { decide(b, soakingNodes(manyNodes)) })
}

// manyNodes is the number of nodes of the benchmarks.
const manyNodes = 100000

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
	for name, input := range map[string]func(nodes int) *policy.Input{
		"waves": func(nodes int) *policy.Input { return halfway(tenWaves(), nodes) },
		"soak":  soakingNodes,
	} {
		of := func(nodes int) float64 {
			in := input(nodes)
			return testing.AllocsPerRun(10, func() { policy.Decide(in) })
		}
		if few, many := of(1000), of(10000); many > few+10 {
			t.Errorf("%s: %v allocations with 1,000 nodes, %v with 10,000", name, few, many)
		}
	}
}

func decide(b *testing.B, in *policy.Input) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		policy.Decide(in)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(in.Labels)), "ns/node")
}

// soakingNodes is a rollout under a policy of which all nodes soak, after its second decision.
func soakingNodes(nodes int) *policy.Input {
	all := int32(100)
	in := halfway(v1alpha1.RolloutPolicySpec{Waves: []v1alpha1.Wave{{Name: "all", Nodes: v1alpha1.WaveNodes{Percent: &all}, Soak: &metav1.Duration{Duration: time.Hour}}}}, nodes)
	for i := range in.Snapshot.Nodes {
		p := &in.Snapshot.Nodes[i].Pods[0]
		p.UID, p.Revision, p.ReadySince = in.Snapshot.Nodes[i].Name, in.Snapshot.Set.Update, noon
	}
	for range 2 {
		out := policy.Decide(in)
		in.Last, in.Memory = out.Status, out.Memory
	}
	return in
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
