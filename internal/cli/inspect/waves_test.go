// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"slices"
	"testing"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// The waves are those of the rollout from the revision that the status names as committed, also while another one has the newest mark.
func TestWavesAfterAMarkOfAStranger(t *testing.T) {
	count := int32(1)
	p := &v1alpha1.RolloutPolicy{}
	p.Name, p.Namespace = "agents", "default"
	p.Spec.Targets = []v1alpha1.Target{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent"}}
	p.Spec.Waves = []v1alpha1.Wave{{Name: "canary", Nodes: v1alpha1.WaveNodes{Count: &count}}}
	rules := policy.Read(p)
	for marked := range 3 {
		s := &rollout.Snapshot{
			Now: 1_800_000_000_000_000_000, Set: rollout.Set{Strategy: rollout.RollingUpdate, MaxUnavailable: rollout.Quantity{Value: 1}, Update: 2},
			Revisions: []rollout.Revision{{Name: "v0", Number: 1}, {Name: "v1", Number: 2}, {Name: "v2", Number: 3}},
		}
		in := policy.Input{
			Snapshot: s, Labels: make([]map[string]string, 2), Set: policy.Set{Namespace: "default", Name: "agent"}, Policies: []*policy.Policy{rules}, Restored: true,
			Last:      &v1alpha1.SetStatus{TargetRevision: "agent-v2", TargetNumber: 3, CommittedRevision: "agent-v1", CommittedDigest: "1"},
			Revisions: []policy.Revision{{Name: "agent-v0", Same: 0, Digest: "0"}, {Name: "agent-v1", Same: 1, Digest: "1", Committed: 1}, {Name: "agent-v2", Same: 2, Digest: "2"}},
		}
		in.Revisions[marked].Committed = 9
		for _, name := range []string{"a", "b"} {
			s.Nodes = append(s.Nodes, rollout.Node{Name: name, Fit: rollout.MustRun, Ready: true, Last: rollout.NoRevision, Pods: []rollout.Pod{
				{Name: name, UID: name, Revision: 1, Phase: rollout.Running, Scheduled: true, Ready: true, ReadySince: s.Now, Created: s.Now},
			}})
		}
		if got := inspect.WavesOf(in, rules); !slices.Equal(got, []int{0, 1}) {
			t.Errorf("with the newest mark on v%d the nodes are in the waves %v", marked, got)
		}
	}
}
