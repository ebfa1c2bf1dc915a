// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"testing"

	"k8s.io/client-go/dynamic/fake"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
)

// TestRecheck: when providers have changed, each policy is checked again, and the sets of all namespaces are decided about.
func TestRecheck(t *testing.T) {
	wrong, changed := "spec.analyses[0].provider: unknown", ""
	s := New(Options{
		Client: fake.NewSimpleDynamicClient(runtime.NewScheme()), Clock: clock.RealClock{}, Changed: func(namespace string) { changed += "[" + namespace + "]" },
		Check: func(*v1alpha1.RolloutPolicy) []string { return []string{wrong} },
	})
	object := &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid"}}
	object.Spec.Targets = []v1alpha1.Target{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "ds"}}
	s.put(object, "it cannot be read")
	problems := func() []string { return s.Of(policy.Set{Namespace: "ns", Name: "ds"}).Policies[0].Problems }
	if got := problems(); len(got) != 2 || got[0] != wrong {
		t.Errorf("the problems are %q", got)
	}
	wrong, changed = "another", ""
	s.Recheck()
	if got := problems(); len(got) != 2 || got[0] != wrong || got[1] != "it cannot be read" || changed != "[]" {
		t.Errorf("the problems are %q, changed %s", got, changed)
	}
}

// TestChecksAreMadeOnceAndApart: to check a policy costs much, so it is done once for each specification, and no pass waits for that.
func TestChecksAreMadeOnceAndApart(t *testing.T) {
	var s *Store
	checks := 0
	s = New(Options{
		Client: fake.NewSimpleDynamicClient(runtime.NewScheme()), Clock: clock.RealClock{}, Changed: func(string) {},
		Check: func(*v1alpha1.RolloutPolicy) []string {
			checks++
			if !s.mu.TryLock() {
				t.Error("passes wait for a check")
				return nil
			}
			s.mu.Unlock()
			return nil
		},
	})
	for _, version := range []struct {
		phase      string
		generation int64
		suspend    bool
		problem    string
		want       int
	}{
		{"a new policy", 1, false, "", 1},
		{"its status has changed", 1, false, "", 1},
		{"its specification has changed", 2, true, "", 2},
		{"it was restored from a backup, and changed", 2, false, "", 3},
		{"another manager knows fewer fields", 2, false, "an unknown field", 4},
	} {
		object := &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid", Generation: version.generation}}
		object.Spec.Suspend = version.suspend
		object.Status.Sets = []v1alpha1.SetStatus{{Name: version.phase}}
		s.put(object, version.problem)
		if checks != version.want {
			t.Errorf("%s: %d checks were made, want %d", version.phase, checks, version.want)
		}
		if e := s.policies["ns"]["p"]; e.read.Suspend != version.suspend || e.object.Status.Sets[0].Name != version.phase {
			t.Errorf("%s: it is not known", version.phase)
		}
	}
	s.Recheck()
	if checks != 5 {
		t.Errorf("%d checks were made, want one more", checks)
	}
}

// TestProvidersThatChangeDuringACheck: a policy is not known as it was with the providers of before.
func TestProvidersThatChangeDuringACheck(t *testing.T) {
	var s *Store
	checks := 0
	s = New(Options{
		Client: fake.NewSimpleDynamicClient(runtime.NewScheme()), Clock: clock.RealClock{}, Changed: func(string) {},
		Check: func(*v1alpha1.RolloutPolicy) []string {
			if checks++; checks > 1 {
				return nil
			}
			s.Recheck()
			return []string{"there is no such provider"}
		},
	})
	s.put(&v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid", Generation: 1}}, "")
	if got := s.policies["ns"]["p"].read.Problems; len(got) > 0 {
		t.Errorf("the problems are %q", got)
	}
}
