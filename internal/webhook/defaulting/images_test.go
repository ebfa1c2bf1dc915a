// SPDX-License-Identifier: Apache-2.0

package defaulting

import (
	"encoding/json"
	"testing"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// defaulted is spec after change.
func defaulted(t *testing.T, spec string, change func(map[string]any)) string {
	t.Helper()
	obj := map[string]any{}
	if err := utiljson.Unmarshal([]byte(`{"spec":`+spec+`}`), &obj); err != nil {
		t.Fatal(err)
	}
	change(obj)
	got, err := json.Marshal(obj["spec"])
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

func TestImagePullJob(t *testing.T) {
	const policy = `"pullPolicy":{"backoffLimit":3,"timeoutSeconds":600}`
	for spec, want := range map[string]string{
		`{"image":"a"}`: `{"completionPolicy":{"type":"Always"},"image":"a","imagePullPolicy":"IfNotPresent",` + policy + `}`,
		`{"completionPolicy":{"type":"Never"},"pullPolicy":{"backoffLimit":0},"imagePullPolicy":"Always","parallelism":0}`: `{"completionPolicy":{"type":"Never"},"imagePullPolicy":"Always","parallelism":0,"pullPolicy":{"backoffLimit":0,"timeoutSeconds":600}}`,
		`{"completionPolicy":"x","pullPolicy":[]}`: `{"completionPolicy":"x","imagePullPolicy":"IfNotPresent","pullPolicy":[]}`,
		`"x"`: `"x"`,
	} {
		if got := defaulted(t, spec, ImagePullJob); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", spec, got, want)
		}
	}
}

func TestNodeImage(t *testing.T) {
	for spec, want := range map[string]string{
		`{}`: `{}`,
		`{"images":{"a":{"tags":[{"tag":"1"},{"tag":"2","createdAt":"then","pullPolicy":{"timeoutSeconds":5}},"x"]},"b":"x"}}`: `{"images":{"a":{"tags":[` +
			`{"createdAt":"now","pullPolicy":{"backoffLimit":3,"timeoutSeconds":600},"tag":"1"},` +
			`{"createdAt":"then","pullPolicy":{"backoffLimit":3,"timeoutSeconds":5},"tag":"2"},"x"]},"b":"x"}}`,
		`"x"`: `"x"`,
	} {
		if got := defaulted(t, spec, func(obj map[string]any) { NodeImage(obj, "now") }); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", spec, got, want)
		}
	}
}
