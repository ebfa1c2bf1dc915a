// SPDX-License-Identifier: Apache-2.0

package parity

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/kubernetes/pkg/controller"
	"k8s.io/kubernetes/pkg/controller/daemon"

	"everynode.dev/everynode/internal/revision"
)

func TestRevisionsOfRandomTemplates(t *testing.T) {
	random := randomTemplates(4)
	var last map[string]any
	for range 3000 {
		ds := daemonSet(t, random())
		template := undecoded(t, ds)
		checkRevision(t, ds, template)
		if last != nil && revision.Equal(template, last) {
			t.Fatalf("two random templates are equal:\n%s\n%s", show(template), show(last))
		}
		last = template
	}
}

// checkRevision checks that upstream knows our revision of its template for its own, and we know it again.
func checkRevision(t *testing.T, ds *appsv1.DaemonSet, template map[string]any) {
	t.Helper()
	data, err := revision.Data(template)
	if err != nil {
		t.Fatal(err)
	}
	same, err := daemon.Match(ds, &appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: data}})
	if err != nil || !same {
		t.Fatalf("upstream does not match (%v) our data\n%s\nof\n%s", err, data, show(template))
	}
	zero, two := int32(0), int32(2)
	for _, count := range []*int32{nil, &zero, &two} {
		got, err := revision.Hash(template, count)
		if want := controller.ComputeHash(&ds.Spec.Template, count); err != nil || got != want {
			t.Fatalf("hash %s, %v; upstream has %s\n%s", got, err, want, show(template))
		}
	}
	decoded, err := revision.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if !revision.Equal(template, decoded) {
		t.Fatalf("the template does not equal its own revision\n%s\n%s", show(template), data)
	}
}

// The goldens of package revision are upstream's own.
func TestGoldensAreUpstreams(t *testing.T) {
	const testdata = "../../internal/revision/testdata"
	for _, name := range []string{"minimal", "agent"} {
		text, err := os.ReadFile(filepath.Join(testdata, name+".template.json"))
		if err != nil {
			t.Fatal(err)
		}
		typed, template := &corev1.PodTemplateSpec{}, map[string]any{}
		for _, into := range []any{typed, &template} {
			if err := kjson.Unmarshal(text, into); err != nil {
				t.Fatal(err)
			}
		}
		ds := daemonSet(t, typed)
		checkRevision(t, ds, template)
		golden, err := os.ReadFile(filepath.Join(testdata, name+".data.json"))
		if err != nil {
			t.Fatal(err)
		}
		raw := runtime.RawExtension{Raw: bytes.TrimSpace(golden)}
		if same, err := daemon.Match(ds, &appsv1.ControllerRevision{Data: raw}); err != nil || !same {
			t.Errorf("%s: upstream does not match the golden data (%v)", name, err)
		}
	}
}
