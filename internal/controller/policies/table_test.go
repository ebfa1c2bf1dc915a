// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
)

// TestTable: objects of a namespace are found in it alone, and a namespace without objects is forgotten.
func TestTable(t *testing.T) {
	a, b, other := types.NamespacedName{Namespace: "x", Name: "a"}, types.NamespacedName{Namespace: "x", Name: "b"}, types.NamespacedName{Namespace: "y", Name: "a"}
	objects := table[int]{}
	for i, name := range []types.NamespacedName{a, b, other} {
		objects.put(name, i+1)
	}
	if objects.get(a) != 1 || objects.get(b) != 2 || objects.get(other) != 3 || objects.get(types.NamespacedName{Namespace: "z"}) != 0 || len(objects["x"]) != 2 {
		t.Errorf("it has %v", objects)
	}
	seen := 0
	for range objects.all() {
		seen++
		if seen == 2 {
			break
		}
	}
	objects.remove(a)
	objects.remove(other)
	objects.remove(other)
	if seen != 2 || len(objects) != 1 || len(objects["x"]) != 1 || objects.get(a) != 0 {
		t.Errorf("after %d, it has %v", seen, objects)
	}
}

// BenchmarkOf reports what it costs to find the policy of a daemon set in a cluster with 10,000 policies, ten in each namespace.
func BenchmarkOf(b *testing.B) {
	s := New(Options{
		Clock: clock.RealClock{}, Changed: func(string) {}, Check: func(*v1alpha1.RolloutPolicy) []string { return nil },
	})
	for i := range 10000 {
		name := fmt.Sprint("agents-", i)
		s.put(&v1alpha1.RolloutPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("ns-", i/10), Name: name},
			Spec:       v1alpha1.RolloutPolicySpec{Targets: []v1alpha1.Target{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: name}}},
		}, "")
	}
	of := func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if g := s.Of(policy.Set{Namespace: "ns-7", Name: "agents-70"}); len(g.Policies) != 1 || len(g.Approvals) != 0 {
				b.Fatalf("it finds %d policies and %d approvals", len(g.Policies), len(g.Approvals))
			}
		}
	}
	b.Run("policies", of)
	for i := range 100_000 {
		s.putApproval(&v1alpha1.RolloutApproval{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns-7", Name: fmt.Sprint("a-", i)}, Spec: v1alpha1.RolloutApprovalSpec{Policy: "agents-70", Set: "another"},
		})
	}
	b.Run("approvals-of-another-set", of)
}

// TestApprovalsOfAnotherSet: the loop gets those of its own set and policy alone, also where a namespace has very many.
func TestApprovalsOfAnotherSet(t *testing.T) {
	s := New(Options{
		Clock: clock.RealClock{}, Changed: func(string) {}, Check: func(*v1alpha1.RolloutPolicy) []string { return nil },
	})
	s.put(&v1alpha1.RolloutPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
		Spec:       v1alpha1.RolloutPolicySpec{Targets: []v1alpha1.Target{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agents"}, {APIVersion: "apps/v1", Kind: "DaemonSet", Name: "others"}}},
	}, "")
	for i, spec := range []v1alpha1.RolloutApprovalSpec{{Policy: "p", Set: "agents"}, {Policy: "p", Set: "others"}, {Policy: "other", Set: "agents"}} {
		s.putApproval(&v1alpha1.RolloutApproval{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("a-", i)}, Spec: spec})
	}
	if g := s.Of(policy.Set{Namespace: "ns", Name: "agents"}); len(g.Approvals) != 1 || g.Approvals[0].Name != "a-0" {
		t.Errorf("the loop of agents gets %+v", g.Approvals)
	}
}
