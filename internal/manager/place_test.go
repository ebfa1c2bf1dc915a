// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/metadata/fake"

	"everynode.dev/everynode/internal/wiring"
)

// TestForeignDefinitions: the dialect of OpenKruise is left out where a definition is somebody else's, and all others are served.
func TestForeignDefinitions(t *testing.T) {
	ours, theirs := map[string]string{"everynode.dev/part-of": "everynode"}, map[string]string{"app": "kruise"}
	definitions := func(sets, jobs, images map[string]string) map[string]map[string]string {
		return map[string]map[string]string{"daemonsets": sets, "imagepulljobs": jobs, "nodeimages": images}
	}
	for name, c := range map[string]struct {
		there         map[string]map[string]string
		asked, served []string
		leftOut       string
		fails         string
	}{
		"ours":              {definitions(ours, ours, ours), []string{wiring.Native, wiring.Kruise}, []string{wiring.Native, wiring.Kruise}, "", ""},
		"theirs":            {definitions(theirs, theirs, theirs), []string{wiring.Native, wiring.Kruise}, []string{wiring.Native}, "daemonsets.apps.kruise.io", ""},
		"one is theirs":     {definitions(ours, ours, nil), []string{wiring.Kruise, wiring.OpenYurt}, []string{wiring.OpenYurt}, "nodeimages.apps.kruise.io", ""},
		"nothing else":      {definitions(theirs, theirs, theirs), []string{wiring.Kruise}, []string{wiring.Kruise}, "", "scale its manager to zero"},
		"one is not there":  {map[string]map[string]string{"daemonsets": ours}, []string{wiring.Native, wiring.Kruise}, []string{wiring.Native, wiring.Kruise}, "", ""},
		"none is there":     {nil, []string{wiring.Native, wiring.Kruise}, []string{wiring.Native}, "does not exist", ""},
		"no sets":           {map[string]map[string]string{"imagepulljobs": ours, "nodeimages": ours}, []string{wiring.Native, wiring.Kruise}, []string{wiring.Native}, "daemonsets.apps.kruise.io", ""},
		"none, and alone":   {nil, []string{wiring.Kruise}, []string{wiring.Kruise}, "", "does not exist"},
		"theirs, one alone": {map[string]map[string]string{"daemonsets": theirs}, []string{wiring.Native, wiring.Kruise}, []string{wiring.Native}, "daemonsets.apps.kruise.io", ""},
	} {
		var objects []runtime.Object
		for plural, labels := range c.there {
			objects = append(objects, &metav1.PartialObjectMetadata{
				TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
				ObjectMeta: metav1.ObjectMeta{Name: plural + ".apps.kruise.io", Labels: labels},
			})
		}
		scheme := fake.NewTestScheme()
		if err := metav1.AddMetaToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		o := newOptions()
		o.dialects = c.asked
		err := checkDefinitions(t.Context(), fake.NewSimpleMetadataClient(scheme, objects...), o)
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
