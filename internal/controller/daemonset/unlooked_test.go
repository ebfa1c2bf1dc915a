// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
)

// soakingWorld is a world in which the canary of a new revision soaks for ten minutes.
func soakingWorld(t *testing.T) (*world, *rules) {
	t.Helper()
	w, r := governedWorld(t)
	p := canaryPolicy()
	p.Spec.Waves[0].Soak, p.Spec.Waves[0].After = &metav1.Duration{Duration: 10 * time.Minute}, nil
	r.Policies = []*policy.Policy{policy.Read(p)}
	w.edit("img:v2")
	w.settle()
	w.settle()
	return w, r
}

// TestSoakWhileNothingIsDecided: the time in which another controller owns the dialect makes a soak longer.
func TestSoakWhileNothingIsDecided(t *testing.T) {
	w, r := soakingWorld(t)
	w.mayWrite = false
	w.mustPass()
	w.clock.Step(time.Hour)
	w.mustPass()
	w.mayWrite = true
	w.mustPass()
	if got := len(w.images("img:v2")); got != 1 || r.last().Phase != v1alpha1.PhaseSoaking {
		t.Errorf("%d nodes are updated, and the phase is %s: %+v", got, r.last().Phase, r.last().Waves[0])
	}
	w.clock.Step(11 * time.Minute)
	w.settle()
	if got := len(w.images("img:v2")); got == 1 {
		t.Errorf("the soak does not end: %+v", r.last().Waves[0])
	}
}

// TestSoakWhileNoPolicyApplies: a set leaves the targets of its policy in the middle of a soak and comes back an hour later. That hour is no soak, and an outage in it counts.
func TestSoakWhileNoPolicyApplies(t *testing.T) {
	w, r := soakingWorld(t)
	was := r.Policies
	r.Policies = nil
	w.mustPass()
	w.clock.Step(time.Hour)
	for name, p := range w.pods {
		if p.Spec.Containers[0].Image == "img:v2" {
			w.ready(name) // again
		}
	}
	r.Policies = was
	w.settle()
	if got := len(w.images("img:v2")); got != 1 {
		t.Errorf("%d nodes are updated at once when the set is selected again: %+v", got, r.last())
	}
}

// withoutPolicies is a grouped in which policies of sets are deleted.
type withoutPolicies struct {
	*grouped
	deleted map[string]bool
}

func (g *withoutPolicies) Of(set policy.Set) Governance {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.deleted[set.Name] {
		return Governance{}
	}
	return g.grouped.Of(set)
}

func (g *withoutPolicies) Grouped(string) (all []*policy.Policy) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for name, p := range g.policies {
		if !g.deleted[name] {
			all = append(all, p)
		}
	}
	return all
}

// TestADeletedPolicyOfAGroup: the policy of a set is deleted while nodes are in the middle of its update. No other set of the group starts there; that is judged by
// grouped. When these nodes are done, the other set goes on.
func TestADeletedPolicyOfAGroup(t *testing.T) {
	const nodes = 4
	synctest.Test(t, func(t *testing.T) {
		g := &withoutPolicies{newGrouped(t, 2, nodes, v1alpha1.ScopeNode), map[string]bool{}}
		g.c.Policies = g
		g.run(func() {
			g.until("img:v1", 2*nodes)
			time.Sleep(10 * time.Second)
			g.broken = func(p *corev1.Pod) bool { return p.Labels["app"] == "set-0" && p.Spec.Containers[0].Image == "img:v2" }
			g.edit("set-0", "img:v2")
			time.Sleep(time.Minute)
			g.mu.Lock()
			g.deleted["set-0"] = true
			g.mu.Unlock()
			g.c.EnqueueAll("native")
			time.Sleep(time.Minute)
			g.edit("set-1", "img:v3")
			time.Sleep(time.Minute)
			g.until("img:v3", nodes-2)
			g.recover()
			g.until("img:v3", nodes)
		})
	})
}

// TestADeletedPolicyOfAnUndo: the policy of a set is deleted while its nodes return to the committed revision by the template, and none of their pods becomes available. No other set
// of the group starts before they are.
func TestADeletedPolicyOfAnUndo(t *testing.T) {
	const nodes = 4
	synctest.Test(t, func(t *testing.T) {
		g := &withoutPolicies{newGrouped(t, 2, nodes, v1alpha1.ScopeCluster), map[string]bool{}}
		g.c.Policies = g
		g.run(func() {
			g.until("img:v1", 2*nodes)
			time.Sleep(10 * time.Second)
			g.mu.Lock()
			g.broken = func(p *corev1.Pod) bool { return p.Labels["app"] == "set-0" }
			g.mu.Unlock()
			g.edit("set-0", "img:v2")
			time.Sleep(time.Minute) // two nodes are down
			g.edit("set-0", "img:v1")
			time.Sleep(time.Minute) // they return, and are still down
			g.mu.Lock()
			g.deleted["set-0"] = true
			g.mu.Unlock()
			g.c.EnqueueNamespace("ns")
			time.Sleep(10 * time.Second)
			g.edit("set-1", "img:v3")
			time.Sleep(time.Minute)
			g.recover()
			g.until("img:v3", nodes)
		})
	})
}

// recover lets the broken pods become ready.
func (g *withoutPolicies) recover() {
	var broken []*corev1.Pod
	g.mu.Lock()
	for _, p := range g.pods {
		if g.broken(p) {
			broken = append(broken, p)
		}
	}
	g.broken = nil
	g.mu.Unlock()
	for _, p := range broken {
		g.ready(p)
	}
}

// TestAnUndoGoesOnAfterATimeWithoutPolicy: a set leaves the targets of its policy for one pass in the middle of an undo, also if its entry in the status is gone since.
func TestAnUndoGoesOnAfterATimeWithoutPolicy(t *testing.T) {
	for _, written := range []bool{false, true} { // whether the removal of the entry from the status has been written and read meanwhile
		w, r := judgedWorld(t)
		for range 40 {
			w.deliver()
			_ = w.pass()
			w.kubelets()
			r.Policies[0].Suspend = len(w.images("img:bad")) > 0 // a person stops it
			w.clock.Step(time.Second)
		}
		last := r.last()
		was := r.Policies
		r.Policies, r.Approvals = nil, nil
		_ = w.pass()
		r.Policies = was
		r.Policies[0].Suspend = false // and lets the undo go on
		if !written {
			r.Stored = &last
		}
		w.settleAndWait()
		w.settleAndWait()
		if got := r.last(); len(w.images("img:v1")) != 4 {
			t.Errorf("written %t: %s %v, bad %v", written, got.Phase, got.Blocking, w.images("img:bad"))
		}
	}
}
