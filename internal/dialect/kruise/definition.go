// SPDX-License-Identifier: Apache-2.0

package kruise

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/api/everynode"
	kruiseapi "everynode.dev/everynode/api/kruise"
)

// Definitions is the resource of CustomResourceDefinitions.
func Definitions() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
}

// OwnDefinition reports whether a CustomResourceDefinition of apps.kruise.io is Everynode's: it has the label, and nothing that only OpenKruise's CRD has. The
// label alone is not enough: it stays when OpenKruise's CRD is applied over Everynode's by server-side apply. Everything else may differ between
// versions of Everynode.
func OwnDefinition(crd *unstructured.Unstructured) bool {
	if crd.GetLabels()[everynode.PartOf] != everynode.PartOfValue {
		return false
	}
	return !slices.ContainsFunc(versions(crd), func(version map[string]any) bool {
		text, _, _ := unstructured.NestedString(version, "schema", "openAPIV3Schema", "description")
		return strings.Contains(text, " is the Schema for the ")
	})
}

// ServedDefinition reports whether the API server serves the objects of a CustomResourceDefinition in the version that the dialect reads. Where it does not, every
// request for them is answered 404, as where there is no CRD.
func ServedDefinition(crd *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(c any) bool {
		condition, _ := c.(map[string]any)
		// Names that another CRD takes later do not end what is established.
		return (condition["type"] == "Established" || condition["type"] == "NamesAccepted") && condition["status"] == "True"
	}) && slices.ContainsFunc(versions(crd), func(version map[string]any) bool {
		return version["name"] == kruiseapi.VersionStored && version["served"] == true
	})
}

func versions(crd *unstructured.Unstructured) (all []map[string]any) {
	list, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, version := range list {
		if fields, ok := version.(map[string]any); ok {
			all = append(all, fields)
		}
	}
	return all
}
