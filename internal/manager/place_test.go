// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"everynode.dev/everynode/internal/dialects"
)

// TestForeignDefinitions: the dialect of OpenKruise is left out where a definition is somebody else's, and all others are served.
func TestForeignDefinitions(t *testing.T) {
	definitions := func(sets, jobs, images string) map[string]string {
		return map[string]string{"daemonsets": sets, "imagepulljobs": jobs, "nodeimages": images}
	}
	for name, c := range map[string]struct {
		there         map[string]string
		asked, served []string
		leftOut       string
		fails         string
	}{
		"ours":              {definitions(ours, ours, ours), []string{dialects.Native, dialects.Kruise}, []string{dialects.Native, dialects.Kruise}, "", ""},
		"theirs":            {definitions(theirs, theirs, theirs), []string{dialects.Native, dialects.Kruise}, []string{dialects.Native}, "daemonsets.apps.kruise.io", ""},
		"one is theirs":     {definitions(ours, ours, theirs), []string{dialects.Kruise, dialects.OpenYurt}, []string{dialects.OpenYurt}, "nodeimages.apps.kruise.io", ""},
		"nothing else":      {definitions(theirs, theirs, theirs), []string{dialects.Kruise}, []string{dialects.Kruise}, "", "scale its manager to zero"},
		"one is not there":  {map[string]string{"daemonsets": ours}, []string{dialects.Native, dialects.Kruise}, []string{dialects.Native, dialects.Kruise}, "", ""},
		"none is there":     {nil, []string{dialects.Native, dialects.Kruise}, []string{dialects.Native}, "does not exist", ""},
		"no sets":           {map[string]string{"imagepulljobs": ours, "nodeimages": ours}, []string{dialects.Native, dialects.Kruise}, []string{dialects.Native}, "daemonsets.apps.kruise.io", ""},
		"none, and alone":   {nil, []string{dialects.Kruise}, []string{dialects.Kruise}, "", "does not exist"},
		"theirs, one alone": {map[string]string{"daemonsets": theirs}, []string{dialects.Native, dialects.Kruise}, []string{dialects.Native}, "daemonsets.apps.kruise.io", ""},
		"applied over ours": {definitions(applied, applied, applied), []string{dialects.Native, dialects.Kruise}, []string{dialects.Native}, "daemonsets.apps.kruise.io", ""},
		"theirs, no sets":   {map[string]string{"nodeimages": theirs}, []string{dialects.Native, dialects.Kruise}, []string{dialects.Native}, "nodeimages.apps.kruise.io", ""},
		"no sets served":    {definitions(unserved, ours, ours), []string{dialects.Native, dialects.Kruise}, []string{dialects.Native}, "does not serve", ""},
		"no jobs served":    {definitions(ours, unserved, ours), []string{dialects.Native, dialects.Kruise}, []string{dialects.Native, dialects.Kruise}, "", ""},
		"unserved, alone":   {definitions(unserved, ours, ours), []string{dialects.Kruise}, []string{dialects.Kruise}, "", "does not serve"},
	} {
		o := newOptions()
		o.dialects = c.asked
		err := checkDefinitions(t.Context(), definitionsClient(c.there), o)
		if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: %v, want %q", name, err, c.fails)
		}
		if !slices.Equal(o.dialects, c.served) {
			t.Errorf("%s: it serves %q, want %q", name, o.dialects, c.served)
		}
		if (o.leftOut == nil) != (c.leftOut == "") || o.leftOut != nil && !strings.Contains(o.leftOut.Error(), c.leftOut) {
			t.Errorf("%s: left out because of %v, want %q", name, o.leftOut, c.leftOut)
		}
	}
}

// TestANamespaceThatTakesNoMoreLeases: a quota or a policy refuses a new lease. That of the manager exists, and is only updated.
func TestANamespaceThatTakesNoMoreLeases(t *testing.T) {
	there := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "everynode-system", Name: leaseName}}
	client := fake.NewClientset(there)
	client.PrependReactor("create", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(coordinationv1.Resource("leases"), "", errors.New("exceeded quota"))
	})
	if err := checkNamespace(t.Context(), client, "everynode-system"); err != nil {
		t.Errorf("the manager does not start: %v", err)
	}
}
