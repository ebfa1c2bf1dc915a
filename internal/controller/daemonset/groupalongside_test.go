// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
)

// groupRules are rules with a concurrency group.
type groupRules struct{ rules }

func (r *groupRules) Grouped(string) []*policy.Policy { return r.Policies }

// TestThePolicyOfASetNextToAnotherControllerIsDeleted: a node in the middle of its update holds the group after the policy of its set was deleted, also next to the controller of Kubernetes. A
// policy without a group frees it.
func TestThePolicyOfASetNextToAnotherControllerIsDeleted(t *testing.T) {
	for _, freed := range []bool{false, true} {
		lingerNextToAnother(t, freed)
	}
}

// lingerNextToAnother plays that. freed is whether a policy without a group applies afterwards.
func lingerNextToAnother(t *testing.T, freed bool) {
	e := newEdge(t, 3, "external", nil)
	p := canaryPolicy()
	p.Spec.Waves = nil
	p.Spec.ConcurrencyGroup = &v1alpha1.ConcurrencyGroup{Name: "network", Scope: v1alpha1.ScopeNode}
	r := &groupRules{rules{Governance: Governance{Policies: []*policy.Policy{policy.Read(p)}}}}
	e.c.Policies = r
	e.roll()
	e.edit("img:v2")
	e.upstream()
	for range 3 {
		e.mustPass()
	}
	busy := func() int {
		l := e.c.groups.open("ns", true)
		defer e.c.groups.release("ns", l)
		l.mu.Lock()
		defer l.mu.Unlock()
		n := 0
		for _, o := range l.See(policy.Candidate{Set: policy.Set{Namespace: "ns", Name: "other"}}, policy.Group{Name: "network"}, nil).Others {
			n += len(o.UnderWay)
		}
		return n
	}
	if n := busy(); n != 1 {
		t.Fatalf("%d nodes hold the group in the middle of an update", n)
	}
	r.Governance = Governance{}
	for _, step := range []func(){func() {}, func() { e.upstream() }} {
		step()
		e.mustPass()
		if n := busy(); n != 1 {
			t.Errorf("%d nodes hold the group after the policy was deleted, and one has no available pod: %v", n, e.images())
		}
	}
	if freed {
		without := canaryPolicy()
		without.Spec.Waves, r.Policies = nil, []*policy.Policy{policy.Read(without)}
		e.mustPass()
		if n := busy(); n != 0 {
			t.Errorf("%d nodes hold the group under a policy without a group", n)
		}
		return
	}
	e.live() // the old pod is gone
	e.upstream()
	e.mustPass()
	if n := busy(); n != 1 {
		t.Errorf("%d nodes hold the group, and the new pod on one is not available", n)
	}
	log := len(e.log)
	e.live()
	e.clock.Step(time.Second)
	e.mustPass()
	if n := busy(); n != 0 || len(e.log) != log {
		t.Errorf("%d nodes hold the group after all pods are available; writes: %v", n, e.log[log:])
	}
}
