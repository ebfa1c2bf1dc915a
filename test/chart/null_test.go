// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestNothingIsNull: who writes a value without anything behind it gets an empty one where there is such a thing, and else is told which is missing, by the
// schema and not by a template that stumbles over it. For Helm, null is a default that is taken away.
func TestNothingIsNull(t *testing.T) {
	values := map[string]any{}
	if err := yaml.UnmarshalStrict(file(t, "values.yaml"), &values); err != nil {
		t.Fatal(err)
	}
	decoder := knownObjects(t)
	missing, empty := 0, 0
	for _, at := range paths(values, schemaOf(t)) {
		nulled := at[len(at)-1] + ": null"
		for _, above := range slices.Backward(at[:len(at)-1]) {
			nulled = above + ": {" + nulled + "}"
		}
		_, err := release{values: nulled}.texts(t)
		if err == nil {
			empty++
			decodes(t, decoder, nulled, release{values: nulled}.objects(t))
			continue
		}
		missing++
		if want := "'" + at[len(at)-1] + "'"; !strings.Contains(err.Error(), "meet the specifications of the schema") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want the schema to say that %s is missing, got %v", nulled, want, err)
		}
	}
	if missing == 0 || empty == 0 {
		t.Errorf("%d values cannot be null, and %d can: that is not how they are found", missing, empty)
	}
	for name := range values {
		if name == "featureGates" {
			continue // none
		}
		if _, err := (release{values: name + ": null"}).texts(t); err == nil {
			t.Errorf("%s: null is taken", name)
		}
	}
}

// paths are those of all sections and values.
func paths(values map[string]any, node *schemaNode) [][]string {
	var all [][]string
	for name, value := range values {
		all = append(all, []string{name})
		if below := node.Properties[name]; below != nil && len(below.Properties) > 0 {
			inner, _ := value.(map[string]any)
			for _, at := range paths(inner, below) {
				all = append(all, append([]string{name}, at...))
			}
		}
	}
	return all
}
