// SPDX-License-Identifier: Apache-2.0

package kruise_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/config"
	"everynode.dev/everynode/internal/dialect/kruise"
)

// shipped are the definitions of Everynode.
func shipped(t *testing.T) map[string]*unstructured.Unstructured {
	t.Helper()
	all := map[string]*unstructured.Unstructured{}
	for _, name := range []string{"daemonsets", "imagepulljobs", "nodeimages"} {
		data, err := config.Kruise.ReadFile("kruise/00-crd-" + name + ".apps.kruise.io.yaml")
		crd := &unstructured.Unstructured{}
		if err == nil {
			err = yaml.Unmarshal(data, &crd.Object)
		}
		if err != nil {
			t.Fatal(err)
		}
		all[name] = crd
	}
	return all
}

// TestOwnDefinition: what a definition says counts, and not its label alone, which stays when another definition is applied over it.
func TestOwnDefinition(t *testing.T) {
	// What OpenKruise 1.8 says of the resources, in its only version.
	theirs := map[string]string{
		"daemonsets":    "DaemonSet is the Schema for the daemonsets API",
		"imagepulljobs": "ImagePullJob is the Schema for the imagepulljobs API",
		"nodeimages":    "NodeImage is the Schema for the nodeimages API",
	}
	for name, crd := range shipped(t) {
		if !kruise.OwnDefinition(crd) {
			t.Errorf("Everynode's definition of %s is not Everynode's", name)
		}
		applied := crd.DeepCopy()
		applied.Object["spec"].(map[string]any)["versions"] = []any{map[string]any{"name": "v1alpha1", "served": true, "storage": true, "schema": map[string]any{
			"openAPIV3Schema": map[string]any{"type": "object", "description": theirs[name]},
		}}}
		if kruise.OwnDefinition(applied) {
			t.Errorf("OpenKruise's definition of %s is Everynode's for its label", name)
		}
		// A later version of Everynode may have other versions and other words, and no words at all.
		for later, versions := range map[string][]any{
			"one more version": append([]any{map[string]any{"name": "v1", "served": true}}, crd.Object["spec"].(map[string]any)["versions"].([]any)...),
			"no description":   {map[string]any{"name": "v1beta1", "served": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}}}},
		} {
			other := crd.DeepCopy()
			other.Object["spec"].(map[string]any)["versions"] = versions
			if !kruise.OwnDefinition(other) {
				t.Errorf("%s: a definition of a later version of Everynode is not Everynode's: %s", name, later)
			}
		}
		crd.SetLabels(nil)
		if kruise.OwnDefinition(crd) {
			t.Errorf("a definition of %s without the label is Everynode's", name)
		}
	}
}

// TestServedDefinition: the API server serves what was established, or what has its names, in the versions that say so.
func TestServedDefinition(t *testing.T) {
	accepted, established := "NamesAccepted", "Established"
	for name, c := range map[string]struct {
		conditions map[string]string
		unserved   string
		want       bool
	}{
		"established":                     {map[string]string{accepted: "True", established: "True"}, "", true},
		"about to be established":         {map[string]string{accepted: "True", established: "False"}, "", true},
		"names that are taken later":      {map[string]string{accepted: "False", established: "True"}, "", true},
		"names that are taken":            {map[string]string{accepted: "False", established: "False"}, "", false},
		"a definition that was just made": {nil, "", false},
		"a version that is not served":    {map[string]string{accepted: "True", established: "True"}, "v1beta1", false},
		"another one that is not served":  {map[string]string{accepted: "True", established: "True"}, "v1alpha1", true},
	} {
		for resource, crd := range shipped(t) {
			var conditions []any
			for kind, status := range c.conditions {
				conditions = append(conditions, map[string]any{"type": kind, "status": status})
			}
			crd.Object["status"] = map[string]any{"conditions": conditions}
			for _, version := range crd.Object["spec"].(map[string]any)["versions"].([]any) {
				if fields := version.(map[string]any); fields["name"] == c.unserved {
					fields["served"] = false
				}
			}
			if got := kruise.ServedDefinition(crd); got != c.want {
				t.Errorf("%s, %s: served %v, want %v", resource, name, got, c.want)
			}
		}
	}
	if kruise.ServedDefinition(&unstructured.Unstructured{Object: map[string]any{}}) {
		t.Error("an empty definition is served")
	}
}
