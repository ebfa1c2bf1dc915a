// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// TestManyLateNodesCostNoMore: when a zone comes back, of which the wave has passed without it, each decision looks at each node a few times, and not at all nodes for each node of the zone.
func TestManyLateNodesCostNoMore(t *testing.T) {
	decide := func(late int) time.Duration {
		const nodes = 40_000
		w := &world{
			t: t, measuring: policy.MeasuredHere, unstored: map[string]bool{}, labels: map[string]map[string]string{}, marks: []int64{1, 0}, failed: make([]*everynode.Failure, 2),
			policies: []*policy.Policy{read(t, "waves: [{name: first, nodes: {selector: {matchLabels: {zone: '1'}}}}, {name: rest, nodes: {percent: 100}, soak: 1h}]\norder: {topologyKey: zone, domains: OneAtATime}\nunreachableAfter: 1m")},
		}
		w.s = rollout.Snapshot{
			Now: noon, Set: rollout.Set{Strategy: rollout.RollingUpdate, MaxUnavailable: rollout.Quantity{Value: 1}, Update: 1},
			Revisions: []rollout.Revision{{Name: "v1", Number: 1}, {Name: "v2", Number: 2, Created: noon}},
		}
		for i := range nodes {
			name := fmt.Sprintf("node-%05d", i)
			down := i > 0 && i <= late
			n := rollout.Node{Name: name, Fit: rollout.MustRun, Ready: !down, Last: rollout.NoRevision}
			zone, revision := "2", 1
			if i <= late {
				zone = "1"
			}
			if down {
				n.Since, revision = noon.Add(-time.Hour), 0
			}
			n.Pods = []rollout.Pod{{Name: name, UID: name, Revision: revision, Phase: rollout.Running, Scheduled: true, Ready: true, ReadySince: noon.Add(-time.Hour), Created: noon.Add(-time.Hour)}}
			w.s.Nodes, w.labels[name] = append(w.s.Nodes, n), map[string]string{"zone": zone}
		}
		in := func() *policy.Input {
			in := &policy.Input{
				Snapshot: &w.s, UID: "agent", Generation: 1, Set: policy.Set{Namespace: "default", Name: "agent"}, Policies: w.policies, Last: w.last, Memory: w.memory,
				Revisions: []policy.Revision{{Name: "agent-v1", Committed: 1}, {Name: "agent-v2", Same: 1}}, Elapsed: time.Second,
			}
			for i := range w.s.Nodes {
				in.Labels = append(in.Labels, w.labels[w.s.Nodes[i].Name])
			}
			return in
		}
		for range 3 {
			out := policy.Decide(in())
			w.last, w.memory = out.Status, out.Memory
		}
		if w.last.Waves[0].Phase != "Passed" {
			t.Fatalf("%+v", w.last)
		}
		for i := range w.s.Nodes {
			w.s.Nodes[i].Ready = true
		}
		last := in()
		least := time.Hour
		for range 3 { // the machine may be busy
			began := time.Now()
			policy.Decide(last)
			least = min(least, time.Since(began))
		}
		return least
	}
	few, many := decide(20), decide(20_000)
	t.Logf("20 late nodes: %s, 20000: %s", few, many)
	if many > 10*few {
		t.Errorf("a decision about 40000 nodes takes %s with 20 late nodes, and %s with 20000", few, many)
	}
}
