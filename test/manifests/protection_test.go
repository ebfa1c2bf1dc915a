// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"everynode.dev/everynode/api/kruise"
)

// kinds are the daemon sets that can be protected, each with a set of that kind that has pods on some nodes.
var kinds = []struct {
	resource schema.GroupVersionResource
	named    string
	set      func(labels map[string]string, pods int32) runtime.Object
}{
	{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "daemonsets"}, "daemonsets", nativeSet},
	{schema.GroupVersionResource{Group: kruise.Group, Version: kruise.VersionBeta, Resource: kruise.Resource}, "daemonsets.apps.kruise.io", advancedSet(kruise.VersionBeta)},
	{schema.GroupVersionResource{Group: kruise.Group, Version: kruise.VersionAlpha, Resource: kruise.Resource}, "daemonsets.apps.kruise.io", advancedSet(kruise.VersionAlpha)},
}

func nativeSet(labels map[string]string, pods int32) runtime.Object {
	set := &appsv1.DaemonSet{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"}}
	set.Namespace, set.Name, set.Labels = namespace, "agent", labels
	set.Status.CurrentNumberScheduled = pods
	return set
}

// advancedSet makes sets as an API server keeps them, which need not have a status.
func advancedSet(version string) func(map[string]string, int32) runtime.Object {
	return func(labels map[string]string, pods int32) runtime.Object {
		set := &unstructured.Unstructured{Object: map[string]any{"apiVersion": kruise.Group + "/" + version, "kind": kruise.Kind}}
		set.SetNamespace(namespace)
		set.SetName("agent")
		set.SetLabels(labels)
		if pods > 0 {
			set.Object["status"] = map[string]any{"currentNumberScheduled": int64(pods)}
		}
		return set
	}
}

// protected are the labels of a set that is protected so.
func protected(how string) map[string]string {
	return map[string]string{"app": "agent", kruise.DeleteProtection: how}
}

// goes is the set while it is being deleted.
func goes(t *testing.T, set runtime.Object) runtime.Object {
	t.Helper()
	m, ok := set.(metav1.Object)
	if !ok {
		t.Fatalf("%T has no metadata", set)
	}
	now := metav1.Now()
	m.SetDeletionTimestamp(&now)
	return set
}

func TestProtectedSetsAreNotDeleted(t *testing.T) {
	j := newJudge(t)
	for _, kind := range kinds {
		for _, c := range []struct {
			name   string
			before runtime.Object
			why    string // of the refusal
		}{
			{"nothing", kind.set(nil, 5), ""},
			{"Always", kind.set(protected(kruise.ProtectAlways), 5), "it cannot be deleted while its label policy.kruise.io/delete-protection is Always"},
			{"Always, without pods", kind.set(protected(kruise.ProtectAlways), 0), "is Always"},
			{"Always, and goes already", goes(t, kind.set(protected(kruise.ProtectAlways), 5)), ""},
			{"Cascading", kind.set(protected(kruise.ProtectCascading), 5), "it cannot be deleted while it has pods, which are on 5 nodes, and its label policy.kruise.io/delete-protection is Cascading"},
			{"Cascading, without pods", kind.set(protected(kruise.ProtectCascading), 0), ""},
			{"what is no value", kind.set(protected("always"), 5), ""},
			{"many sets at once", nil, ""},
		} {
			for _, nameless := range []bool{false, true} {
				err := j.ask(t, question{operation: admission.Delete, resource: kind.resource, kind: kruise.Kind, before: c.before, nameless: nameless})
				if c.why == "" && err != nil || c.why != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), c.why)) {
					t.Errorf("%s with %s, one of many %t: got %v, want %q", kind.resource, c.name, nameless, err, c.why)
				}
				remedy := "kubectl label --namespace team " + kind.named + " agent policy.kruise.io/delete-protection- takes the label away"
				if c.why != "" && err != nil && !strings.Contains(err.Error(), remedy) {
					t.Errorf("%s with %s, one of many %t: %v does not say %q", kind.resource, c.name, nameless, err, remedy)
				}
			}
		}
	}
}

func TestProtectionIsWrittenRight(t *testing.T) {
	j := newJudge(t)
	for _, kind := range kinds {
		for _, c := range []struct {
			name        string
			before, now map[string]string
			refused     bool
		}{
			{"right from the beginning", nil, protected(kruise.ProtectAlways), false},
			{"wrong from the beginning", nil, protected("always"), true},
			{"empty from the beginning", nil, protected(""), true},
			{"wrong later", map[string]string{"app": "agent"}, protected("true"), true},
			{"wrong instead of right", protected(kruise.ProtectCascading), protected("cascade"), true},
			{"wrong, as before", protected("always"), protected("always"), false},
			{"taken away", protected(kruise.ProtectAlways), map[string]string{"app": "agent"}, false},
			{"something else", map[string]string{"app": "agent"}, map[string]string{"app": "other"}, false},
		} {
			q := question{operation: admission.Create, resource: kind.resource, kind: kruise.Kind, now: kind.set(c.now, 5)}
			if c.before != nil {
				q.operation, q.before = admission.Update, kind.set(c.before, 5)
			}
			err := j.ask(t, q)
			if c.refused != (err != nil) {
				t.Errorf("%s: %s: got %v", kind.resource, c.name, err)
			}
			if c.refused && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "write Always or Cascading, or leave it out")) {
				t.Errorf("%s: %s: %v does not say what to write", kind.resource, c.name, err)
			}
		}
	}
}

// TestProtectionLeavesStatusAlone: the manager writes the status of a set whatever its label is.
func TestProtectionLeavesStatusAlone(t *testing.T) {
	j := newJudge(t)
	for _, kind := range kinds {
		q := question{operation: admission.Update, resource: kind.resource, subresource: "status", kind: kruise.Kind,
			before: kind.set(nil, 0), now: kind.set(protected("nonsense"), 5)}
		if err := j.ask(t, q); err != nil {
			t.Errorf("%s: %v", kind.resource, err)
		}
	}
}

// TestProtectedDefinitionIsNotDeleted: with it every Advanced DaemonSet would go, and no policy is asked about these. Other definitions are not ours
// to protect.
func TestProtectedDefinitionIsNotDeleted(t *testing.T) {
	j := newJudge(t)
	resource := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	definition := func(name string, labels map[string]string) runtime.Object {
		crd := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}}
		crd.SetName(name)
		crd.SetLabels(labels)
		return crd
	}
	const ours, other = "daemonsets.apps.kruise.io", "clonesets.apps.kruise.io"
	for _, c := range []struct {
		name    string
		before  runtime.Object
		refused bool
	}{
		{"without the label", definition(ours, nil), false},
		{"with Always", definition(ours, protected(kruise.ProtectAlways)), true},
		{"with Cascading", definition(ours, protected(kruise.ProtectCascading)), true},
		{"with Always, and goes already", goes(t, definition(ours, protected(kruise.ProtectAlways))), false},
		{"another one", definition(other, protected(kruise.ProtectAlways)), false},
	} {
		for _, nameless := range []bool{false, true} {
			err := j.ask(t, question{operation: admission.Delete, resource: resource, kind: "CustomResourceDefinition", before: c.before, nameless: nameless})
			const remedy = "kubectl label customresourcedefinitions.apiextensions.k8s.io daemonsets.apps.kruise.io policy.kruise.io/delete-protection- takes the label away"
			if c.refused && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "every Advanced DaemonSet would be deleted with it") || !strings.Contains(err.Error(), remedy)) ||
				!c.refused && err != nil {
				t.Errorf("%s, one of many %t: got %v", c.name, nameless, err)
			}
		}
	}
	for name, refused := range map[string]bool{ours: true, other: false} {
		err := j.ask(t, question{operation: admission.Create, resource: resource, kind: "CustomResourceDefinition", now: definition(name, protected("always"))})
		if refused != (err != nil) {
			t.Errorf("%s with a value that is none: %v", name, err)
		}
	}
}
