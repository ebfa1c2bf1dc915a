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
