// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/config"
)

// TestFieldsOfPoliciesAreExplained: kubectl explain has a whole sentence about each field, and kubectl get has columns that are explained too.
func TestFieldsOfPoliciesAreExplained(t *testing.T) {
	files, err := fs.Glob(config.Policy, "policy/00-crd-*.yaml")
	if err != nil || len(files) != 2 {
		t.Fatalf("the definitions are %q: %v", files, err)
	}
	for _, file := range files {
		data, err := fs.ReadFile(config.Policy, file)
		if err != nil {
			t.Fatal(err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(data, crd); err != nil {
			t.Fatal(err)
		}
		version := &crd.Spec.Versions[0]
		if missing := unexplained(version.Schema.OpenAPIV3Schema, ""); len(missing) > 0 {
			t.Errorf("%s: no whole sentence explains %q", file, missing)
		}
		for _, c := range version.AdditionalPrinterColumns {
			if !strings.HasSuffix(c.Description, ".") {
				t.Errorf("%s: the column %s is described as %q", file, c.Name, c.Description)
			}
			if strings.Contains(c.JSONPath, "[*]") {
				t.Errorf("%s: the column %s would show only the first value of %s", file, c.Name, c.JSONPath)
			}
		}
		if !slices.Contains(crd.Spec.Names.Categories, "everynode") {
			t.Errorf("%s: kubectl get everynode does not list it", file)
		}
	}
}

// unexplained are the fields without a sentence. Those that all objects have are explained by Kubernetes.
func unexplained(of *apiextensionsv1.JSONSchemaProps, path string) (fields []string) {
	for name := range of.Properties {
		field, at := of.Properties[name], path+"."+name
		if !slices.Contains([]string{".apiVersion", ".kind", ".metadata"}, at) && !strings.HasSuffix(strings.TrimSpace(field.Description), ".") {
			fields = append(fields, at)
		}
		fields = append(fields, unexplained(&field, at)...)
		if field.Items != nil && field.Items.Schema != nil {
			fields = append(fields, unexplained(field.Items.Schema, at+"[]")...)
		}
	}
	slices.Sort(fields)
	return fields
}
