// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/config"
)

// definition is the definition of the Advanced DaemonSet.
func definition(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	names, err := fs.Glob(config.Kruise, "kruise/*-crd-daemonsets.apps.kruise.io.yaml")
	if err != nil || len(names) != 1 {
		t.Fatalf("found the definitions %q: %v", names, err)
	}
	data, err := config.Kruise.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(data, crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

func TestDefinitionIsThatOfOpenKruise(t *testing.T) {
	crd := definition(t)
	if names := crd.Spec.Names; !slices.Equal(names.ShortNames, []string{"daemon", "ads"}) || names.Plural != "daemonsets" || names.Kind != "DaemonSet" {
		t.Errorf("the names are %+v", names)
	}
	if crd.Spec.Scope != apiextensionsv1.NamespaceScoped {
		t.Errorf("the scope is %s", crd.Spec.Scope)
	}
	if len(crd.Spec.Versions) != 2 {
		t.Fatalf("there are %d versions", len(crd.Spec.Versions))
	}
	columns := []string{"DESIRED", "CURRENT", "READY", "UP-TO-DATE", "AVAILABLE", "AGE", "CONTAINERS wide", "IMAGES wide"}
	for _, v := range crd.Spec.Versions {
		if !v.Served || v.Storage != (v.Name == "v1beta1") || v.Deprecated {
			t.Errorf("%s: served %t, stored %t, deprecated %t", v.Name, v.Served, v.Storage, v.Deprecated)
		}
		if v.Subresources == nil || v.Subresources.Status == nil || v.Subresources.Scale != nil {
			t.Errorf("%s has subresources %+v, want status alone", v.Name, v.Subresources)
		}
		var got []string
		for _, column := range v.AdditionalPrinterColumns {
			name := column.Name
			if column.Priority > 0 {
				name += " wide"
			}
			got = append(got, name)
			if column.Description == "" {
				t.Errorf("%s: column %s has no description", v.Name, column.Name)
			}
		}
		if !slices.Equal(got, columns) {
			t.Errorf("%s has the columns %q, want %q", v.Name, got, columns)
		}
	}
}

// TestFieldsAreExplained: kubectl explain has something to say of every field, and no default stands in the schema: the API server
// would fill it in after conversion, and an object would not be the same on its way back.
func TestFieldsAreExplained(t *testing.T) {
	for _, v := range definition(t).Spec.Versions {
		count := 0
		walk(v.Schema.OpenAPIV3Schema, v.Name, func(path string, schema *apiextensionsv1.JSONSchemaProps) {
			count++
			if strings.TrimSpace(schema.Description) == "" && path != v.Name+".metadata" {
				t.Errorf("%s has no description", path)
			}
			if schema.Default != nil && !isUnobserved(path, schema) {
				t.Errorf("%s has the default %s", path, schema.Default.Raw)
			}
			if strings.Contains(schema.Description, "TODO") {
				t.Errorf("%s is not described to the end: %s", path, schema.Description)
			}
		})
		if count < 40 {
			t.Errorf("%s has %d fields only", v.Name, count)
		}
	}
}

// isUnobserved is whether a default is that of the status of an object that no manager has seen. It is the same in each version, and no client writes a
// status, so an object stays the same on its way back.
func isUnobserved(path string, schema *apiextensionsv1.JSONSchemaProps) bool {
	return strings.HasSuffix(path, ".status") && strings.Contains(string(schema.Default.Raw), `"observedGeneration":-1`)
}

// TestNewObjectsAreNotObserved: tools that follow kstatus take an object without a status for one that is done.
func TestNewObjectsAreNotObserved(t *testing.T) {
	policies := &apiextensionsv1.CustomResourceDefinition{}
	data, err := config.Policy.ReadFile("policy/00-crd-rolloutpolicies.everynode.dev.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(data, policies); err != nil {
		t.Fatal(err)
	}
	for _, crd := range []*apiextensionsv1.CustomResourceDefinition{definition(t), definitionOf(t, "imagepulljobs"), policies} {
		for _, v := range crd.Spec.Versions {
			status := v.Schema.OpenAPIV3Schema.Properties["status"]
			if status.Default == nil || !isUnobserved(v.Name+".status", &status) {
				t.Errorf("%s %s: the status of a new object has no generation", crd.Name, v.Name)
			}
		}
	}
}

// walk visits every field below a schema.
func walk(schema *apiextensionsv1.JSONSchemaProps, path string, visit func(string, *apiextensionsv1.JSONSchemaProps)) {
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		field := schema.Properties[name]
		at := path + "." + name
		visit(at, &field)
		walk(&field, at, visit)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		walk(schema.Items.Schema, path+"[]", visit)
	}
}

// TestNothingIsDroppedInSilence: what the schema of a specification does not know reaches validation, which refuses it. The API server
// would drop it from what clients send that do not ask for strict validation, and something else would run than was written.
func TestNothingIsDroppedInSilence(t *testing.T) {
	for _, v := range definition(t).Spec.Versions {
		spec := v.Schema.OpenAPIV3Schema.Properties["spec"]
		kept := func(path string, schema *apiextensionsv1.JSONSchemaProps) {
			// A requirement of a label selector is an item of a list; its own type is not ours to mark.
			if len(schema.Properties) > 0 && (schema.XPreserveUnknownFields == nil || !*schema.XPreserveUnknownFields) && !strings.Contains(path, "[]") {
				t.Errorf("unknown fields of %s are dropped", path)
			}
		}
		kept(v.Name+".spec", &spec)
		walk(&spec, v.Name+".spec", kept)
	}
}

// TestTemplateIsNotLookedInto: every field of a pod template is kept, those that are newer than our types included.
func TestTemplateIsNotLookedInto(t *testing.T) {
	for _, v := range definition(t).Spec.Versions {
		template := v.Schema.OpenAPIV3Schema.Properties["spec"].Properties["template"]
		if keep := template.XPreserveUnknownFields; keep == nil || !*keep || len(template.Properties) > 0 {
			t.Errorf("%s prunes the template: %+v", v.Name, template)
		}
	}
}
