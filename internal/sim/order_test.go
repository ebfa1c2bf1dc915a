// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/rollout"
)

// silent ignores all events.
type silent struct{}

func (silent) Decided(clustercache.Key, *rollout.Snapshot, *rollout.Plan, time.Duration)         {}
func (silent) Forgotten(clustercache.Key)                                                        {}
func (silent) Refused(clustercache.Key)                                                          {}
func (silent) Wrote(string, error)                                                               {}
func (silent) Event(runtime.Object, string, string, string)                                      {}
func (silent) Eventf(runtime.Object, string, string, string, ...any)                             {}
func (silent) AnnotatedEventf(runtime.Object, map[string]string, string, string, string, ...any) {}

// observer looks at each decision of a manager.
type observer struct {
	silent
	m *manager
}

// Decided implements daemonset.Observer: the same Snapshot gives the same plan, also when it has the pods of each node in another order.
func (o observer) Decided(key clustercache.Key, was *rollout.Snapshot, plan *rollout.Plan, _ time.Duration) {
	s := o.m.s
	mixed := was.Copy()
	for i := range mixed.Nodes {
		slices.Reverse(mixed.Nodes[i].Pods)
	}
	if one, other := words("%+v", rollout.Decide(*was)), words("%+v", rollout.Decide(mixed)); one != other {
		s.blame("order", "of the same nodes and pods comes %s, and then %s", one, other)
	}
	if key == o.m.key {
		s.judgePlan(was)
		s.judgeVerdicts(o.m, was, plan)
		s.judgeImages(o.m, plan, was)
		o.m.turns.plan(was, plan, s.w.now)
	}
}

// TestARunCanBeRepeated: nothing in what ships depends on the order of a map, on which goroutine is faster, or on chance, so a seed is always the same
// run, to the last word.
func TestARunCanBeRepeated(t *testing.T) {
	for i := range uint64(50) {
		seed := *from + i
		if one, other := playSeed(t, seed).text(), playSeed(t, seed).text(); one != other {
			t.Fatalf("seed %d is one time\n%s\nand another time\n%s", seed, one, other)
		}
	}
}
