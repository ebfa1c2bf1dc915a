// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/config"
)

// definitionOf is the definition of a resource of OpenKruise's group.
func definitionOf(t *testing.T, plural string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	names, err := fs.Glob(config.Kruise, "kruise/*-crd-"+plural+".apps.kruise.io.yaml")
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

func TestPullDefinitionsAreThoseOfOpenKruise(t *testing.T) {
	job := []string{"TOTAL", "ACTIVE", "SUCCEED", "FAILED", "AGE"}
	nodeImage := []string{"DESIRED", "PULLING", "SUCCEED", "FAILED", "AGE"}
	for _, want := range []struct {
		plural, kind string
		short        []string
		scope        apiextensionsv1.ResourceScope
		columns      map[string][]string
	}{
		{"imagepulljobs", "ImagePullJob", nil, "Namespaced", map[string][]string{"v1alpha1": append(slices.Clip(job), "MESSAGE"), "v1beta1": job}},
		{"nodeimages", "NodeImage", nil, "Cluster", map[string][]string{"v1alpha1": nodeImage, "v1beta1": nodeImage}},
	} {
		crd := definitionOf(t, want.plural)
		if names := crd.Spec.Names; !slices.Equal(names.ShortNames, want.short) || names.Plural != want.plural || names.Kind != want.kind {
			t.Errorf("%s: the names are %+v", want.plural, names)
		}
		if crd.Spec.Scope != want.scope {
			t.Errorf("%s: the scope is %s", want.plural, crd.Spec.Scope)
		}
		if len(crd.Spec.Versions) != len(want.columns) {
			t.Fatalf("%s has %d versions", want.plural, len(crd.Spec.Versions))
		}
		for _, v := range crd.Spec.Versions {
			checkVersion(t, want.plural, v, want.columns[v.Name])
		}
	}
}

// checkVersion checks what is there beside the fields.
func checkVersion(t *testing.T, plural string, v apiextensionsv1.CustomResourceDefinitionVersion, columns []string) {
	t.Helper()
	if !v.Served || v.Storage != (v.Name == "v1beta1") || v.Deprecated {
		t.Errorf("%s %s: served %t, stored %t, deprecated %t", plural, v.Name, v.Served, v.Storage, v.Deprecated)
	}
	if v.Subresources == nil || v.Subresources.Status == nil || v.Subresources.Scale != nil {
		t.Errorf("%s %s has subresources %+v, want status alone", plural, v.Name, v.Subresources)
	}
	var got []string
	for _, column := range v.AdditionalPrinterColumns {
		name := column.Name
		if column.Priority > 0 {
			name += " wide"
		}
		got = append(got, name)
		if column.Description == "" {
			t.Errorf("%s %s: column %s has no description", plural, v.Name, column.Name)
		}
	}
	if !slices.Equal(got, columns) {
		t.Errorf("%s %s has the columns %q, want %q", plural, v.Name, got, columns)
	}
}

// TestVersionsThatTheServerConverts: where no webhook converts, both versions have the same fields, or a client of one would
// remove what a client of the other wrote.
func TestVersionsThatTheServerConverts(t *testing.T) {
	for _, plural := range []string{"imagepulljobs", "nodeimages"} {
		crd := definitionOf(t, plural)
		if crd.Spec.Conversion != nil {
			t.Errorf("%s is converted by %s", plural, crd.Spec.Conversion.Strategy)
		}
		if one, other := crd.Spec.Versions[0].Schema, crd.Spec.Versions[1].Schema; !reflect.DeepEqual(one, other) {
			t.Errorf("the versions of %s have different fields", plural)
		}
	}
}

// TestPullFieldsAreExplained: as for the daemon set, kubectl explain has something to say of every field.
func TestPullFieldsAreExplained(t *testing.T) {
	for _, plural := range []string{"imagepulljobs", "nodeimages"} {
		for _, v := range definitionOf(t, plural).Spec.Versions {
			count := 0
			walkAll(v.Schema.OpenAPIV3Schema, plural+" "+v.Name, func(path string, schema *apiextensionsv1.JSONSchemaProps) {
				count++
				if strings.TrimSpace(schema.Description) == "" && !strings.HasSuffix(path, v.Name+".metadata") {
					t.Errorf("%s has no description", path)
				}
				if schema.Default != nil && !isUnobserved(path, schema) {
					t.Errorf("%s has the default %s", path, schema.Default.Raw)
				}
			})
			if count < 30 {
				t.Errorf("%s %s has %d fields only", plural, v.Name, count)
			}
		}
	}
}

// walkAll visits every field below a schema, those of the values of maps included.
func walkAll(schema *apiextensionsv1.JSONSchemaProps, path string, visit func(string, *apiextensionsv1.JSONSchemaProps)) {
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		field := schema.Properties[name]
		visit(path+"."+name, &field)
		walkAll(&field, path+"."+name, visit)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		walkAll(schema.Items.Schema, path+"[]", visit)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		walkAll(schema.AdditionalProperties.Schema, path+"{}", visit)
	}
}
