// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"slices"
	"testing"
	"time"

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

// A node on which the update has begun keeps its place in a wave when it is gone: no other node is shown in its place, as the manager gives it to none. That is so for the
// rollout that the status is about only.
func TestWavesOfNodesThatAreGone(t *testing.T) {
	count := int32(2)
	p := &v1alpha1.RolloutPolicy{}
	p.Name, p.Namespace = "agents", "default"
	p.Spec.Targets = []v1alpha1.Target{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent"}}
	p.Spec.Waves = []v1alpha1.Wave{{Name: "canary", Nodes: v1alpha1.WaveNodes{Count: &count}}}
	rules := policy.Read(p)
	for name, c := range map[string]struct {
		wave   v1alpha1.WaveStatus
		number int64
		want   []int
	}{
		"none is gone":     {v1alpha1.WaveStatus{Begun: []string{"b"}}, 2, []int{0, 0, 1}},
		"named":            {v1alpha1.WaveStatus{Begun: []string{"a", "b"}}, 2, []int{0, 1, 1}},
		"counted":          {v1alpha1.WaveStatus{Begun: []string{"b"}, Gone: 1}, 2, []int{0, 1, 1}},
		"another node":     {v1alpha1.WaveStatus{Begun: []string{"d"}, Gone: 1}, 2, []int{1, 1, 0}},
		"all are gone":     {v1alpha1.WaveStatus{Gone: 2}, 2, []int{1, 1, 1}},
		"an older rollout": {v1alpha1.WaveStatus{Gone: 2}, 1, []int{0, 0, 1}},
	} {
		s := &rollout.Snapshot{
			Now: 1_800_000_000_000_000_000, Set: rollout.Set{Strategy: rollout.RollingUpdate, MaxUnavailable: rollout.Quantity{Value: 1}, Update: 1},
			Revisions: []rollout.Revision{{Name: "v0", Number: 1}, {Name: "v1", Number: 2}},
		}
		c.wave.Name, c.wave.Phase = "canary", v1alpha1.WaveRolling
		in := policy.Input{
			Snapshot: s, Labels: make([]map[string]string, 3), Set: policy.Set{Namespace: "default", Name: "agent"}, Policies: []*policy.Policy{rules}, Restored: true,
			Last:      &v1alpha1.SetStatus{TargetRevision: "agent-v1", TargetNumber: c.number, CommittedRevision: "agent-v0", CommittedDigest: "0", Waves: []v1alpha1.WaveStatus{c.wave}},
			Revisions: []policy.Revision{{Name: "agent-v0", Same: 0, Digest: "0", Committed: 1}, {Name: "agent-v1", Same: 1, Digest: "1"}},
		}
		for _, node := range []string{"b", "c", "d"} {
			s.Nodes = append(s.Nodes, rollout.Node{Name: node, Fit: rollout.MustRun, Ready: true, Last: rollout.NoRevision, Pods: []rollout.Pod{
				{Name: node, UID: node, Revision: 0, Phase: rollout.Running, Scheduled: true, Ready: true, ReadySince: s.Now, Created: s.Now},
			}})
		}
		if got := inspect.WavesOf(in, rules); !slices.Equal(got, c.want) {
			t.Errorf("%s: the nodes are in the waves %v, want %v", name, got, c.want)
		}
	}
}

// A node that went down with the revision keeps its place in its wave, although Kubernetes taints it so that it need not run the pod any more; also if the status of the
// policy does not name it.
func TestWavesOfANodeThatWentDown(t *testing.T) {
	count := int32(2)
	p := &v1alpha1.RolloutPolicy{}
	p.Name, p.Namespace = "agents", "default"
	p.Spec.Targets = []v1alpha1.Target{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent"}}
	p.Spec.Waves = []v1alpha1.Wave{{Name: "canary", Nodes: v1alpha1.WaveNodes{Count: &count}}}
	rules := policy.Read(p)
	const now = rollout.Time(1_800_000_000_000_000_000)
	for name, begun := range map[string][]string{"named": {"a", "b"}, "not named": nil} {
		for _, fit := range []rollout.Fit{rollout.MustRun, rollout.MayStay} {
			s := &rollout.Snapshot{
				Now: now, Set: rollout.Set{Strategy: rollout.RollingUpdate, MaxUnavailable: rollout.Quantity{Value: 1}, Update: 1},
				Revisions: []rollout.Revision{{Name: "v0", Number: 1}, {Name: "v1", Number: 2}},
			}
			in := policy.Input{
				Snapshot: s, Labels: make([]map[string]string, 3), Set: policy.Set{Namespace: "default", Name: "agent"}, Policies: []*policy.Policy{rules}, Restored: true,
				Last: &v1alpha1.SetStatus{TargetRevision: "agent-v1", TargetNumber: 2, CommittedRevision: "agent-v0", CommittedDigest: "0", Phase: v1alpha1.PhaseRolling, Wave: "canary",
					Waves: []v1alpha1.WaveStatus{{Name: "canary", Phase: v1alpha1.WaveRolling, Begun: begun}}},
				Revisions: []policy.Revision{{Name: "agent-v0", Same: 0, Digest: "0", Committed: 1}, {Name: "agent-v1", Same: 1, Digest: "1"}},
			}
			for i, node := range []string{"a", "b", "c"} {
				n := rollout.Node{Name: node, Fit: rollout.MustRun, Ready: true, Last: rollout.NoRevision, Pods: []rollout.Pod{
					{Name: node, UID: node, Revision: min(2-i, 1), Phase: rollout.Running, Scheduled: true, Ready: i > 0, ReadySince: now, Created: now.Add(-time.Minute)},
				}}
				if i == 0 {
					n.Ready, n.Since, n.Fit = false, now.Add(-time.Second), fit
				}
				s.Nodes = append(s.Nodes, n)
			}
			if got, want := inspect.WavesOf(in, rules), []int{0, 0, 1}; !slices.Equal(got, want) {
				t.Errorf("%s, fit %v: the nodes are in the waves %v, want %v", name, fit, got, want)
			}
		}
	}
}
