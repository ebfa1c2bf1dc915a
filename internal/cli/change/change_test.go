// SPDX-License-Identifier: Apache-2.0

package change

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func tree(t *testing.T, text string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := yaml.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestFields(t *testing.T) {
	for name, c := range map[string]struct{ before, after, want string }{
		"nothing":            {"{a: 1}", "{a: 1}", ""},
		"null is nothing":    {"{a: null}", "{}", ""},
		"set":                {"{}", "{a: {b: true}}", ".a.b: (none) -> true"},
		"removed":            {"{a: {b: x, c: y}}", "{a: {c: y}}", `.a.b: "x" -> (none)`},
		"a map of nothing":   {"{}", "{a: {}}", ".a: (none) -> {}"},
		"another type":       {"{a: {b: 1}}", "{a: x}", `.a: {"b":1} -> "x"`},
		"by name":            {"{containers: [{name: a, image: x}, {name: b}]}", "{containers: [{name: a, image: z}, {name: b}]}", `.containers[name="a"].image: "x" -> "z"`},
		"another order":      {"{containers: [{name: a}, {name: b}]}", "{containers: [{name: b}, {name: a}]}", `.containers: [{"name":"a"},{"name":"b"}] -> [{"name":"b"},{"name":"a"}]`},
		"one more":           {"{env: [{name: a}]}", "{env: [{name: a}, {name: b}]}", `.env: [{"name":"a"}] -> [{"name":"a"},{"name":"b"}]`},
		"mounts have no key": {"{volumeMounts: [{name: a, mountPath: /a}]}", "{volumeMounts: [{name: a, mountPath: /b}]}", `.volumeMounts: [{"mountPath":"/a","name":"a"}] -> [{"mountPath":"/b","name":"a"}]`},
		"long":               {"{}", "{a: " + strings.Repeat("x", 200) + "}", ".a: (none) -> (…)"},
	} {
		t.Run(name, func(t *testing.T) {
			var lines []string
			for _, f := range Fields(tree(t, c.before), tree(t, c.after)) {
				lines = append(lines, f.String())
			}
			if got := strings.Join(lines, "\n"); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestOwned(t *testing.T) {
	const paused = `{"f:spec":{"f:updateStrategy":{".":{},"f:rollingUpdate":{".":{},"f:paused":{}}}}}`
	before, after := tree(t, "{spec: {updateStrategy: {}}}"), tree(t, "{spec: {updateStrategy: {rollingUpdate: {paused: true}}}}")
	apply := func(fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: "gitops", Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	with := func(edit func(*metav1.ManagedFieldsEntry)) metav1.ManagedFieldsEntry {
		e := apply(paused)
		edit(&e)
		return e
	}
	for name, c := range map[string]struct {
		entry metav1.ManagedFieldsEntry
		owned bool
	}{
		"the field":                   {apply(paused), true},
		"something above, as a map":   {apply(`{"f:spec":{"f:updateStrategy":{".":{},"f:rollingUpdate":{".":{},"f:partition":{}}}}}`), false},
		"something above, as a whole": {apply(`{"f:spec":{"f:updateStrategy":{}}}`), true},
		"something below":             {apply(`{"f:spec":{"f:updateStrategy":{"f:rollingUpdate":{"f:paused":{"f:x":{}}}}}}`), true},
		"something beside":            {apply(`{"f:spec":{"f:template":{}}}`), false},
		"an update":                   {with(func(e *metav1.ManagedFieldsEntry) { e.Operation = metav1.ManagedFieldsOperationUpdate }), false},
		"the status":                  {with(func(e *metav1.ManagedFieldsEntry) { e.Subresource = "status" }), false},
		"our own":                     {with(func(e *metav1.ManagedFieldsEntry) { e.Manager = "kubectl-everynode" }), false},
		"no fields":                   {with(func(e *metav1.ManagedFieldsEntry) { e.FieldsV1 = nil }), false},
	} {
		t.Run(name, func(t *testing.T) {
			lines, err := owned([]metav1.ManagedFieldsEntry{c.entry}, Fields(before, after))
			if err != nil || (len(lines) > 0) != c.owned {
				t.Errorf("owned: %q (%v), want %t", lines, err, c.owned)
			}
		})
	}
	if _, err := owned([]metav1.ManagedFieldsEntry{apply("x")}, Fields(before, after)); err == nil {
		t.Error("what cannot be read is no error")
	}
}

// A merge patch keeps whole numbers whole, and is refused when somebody was faster.
func TestMergePatch(t *testing.T) {
	object := Object{}
	object.Read = unstructuredOf(t, `{"apiVersion":"v1","kind":"X","metadata":{"name":"a","resourceVersion":"5"},"spec":{"n":1}}`)
	after := unstructuredOf(t, `{"apiVersion":"v1","kind":"X","metadata":{"name":"a","resourceVersion":"5"},"spec":{"n":9223372036854775807}}`)
	patch, err := mergePatch(object.Read, after)
	if want := `{"metadata":{"resourceVersion":"5"},"spec":{"n":9223372036854775807}}`; err != nil || string(patch) != want {
		t.Errorf("got %s (%v), want %s", patch, err, want)
	}
}

func unstructuredOf(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return object
}
