// SPDX-License-Identifier: Apache-2.0

package change

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"everynode.dev/everynode/internal/cli/options"
)

// OwnedError reports that other field managers have applied the fields to change.
type OwnedError struct {
	// Name is the object, Owned has a line for each manager and field.
	Name  string
	Owned []string
}

func (e *OwnedError) Error() string {
	return fmt.Sprintf("%s was not changed, because other field managers have applied these fields:\n  %s\n"+
		"change them at their source (usually a repository), or take ownership of the fields with --force-conflicts", e.Name, strings.Join(e.Owned, "\n  "))
}

// Conflict returns an OwnedError if other field managers have applied one of the fields that an edit changes.
func Conflict(object Object, fields []Field) error {
	lines, err := owned(object.Read.GetManagedFields(), fields)
	if err != nil || len(lines) == 0 {
		return err
	}
	return &OwnedError{Name: object.Name(), Owned: lines}
}

// owned returns the fields that others have applied. A field manager that only updated an object does not prevent
// further updates.
func owned(entries []metav1.ManagedFieldsEntry, fields []Field) ([]string, error) {
	var all []string
	for _, entry := range entries {
		if entry.Operation != metav1.ManagedFieldsOperationApply || entry.Subresource != "" || entry.Manager == options.FieldManager || entry.FieldsV1 == nil {
			continue
		}
		set := &fieldpath.Set{}
		if err := set.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			return nil, fmt.Errorf("reading which fields the manager %s has applied: %w", entry.Manager, err)
		}
		for _, f := range fields {
			if owns(set, f.Path) {
				all = append(all, fmt.Sprintf("%q has %s", entry.Manager, f.Path))
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// owns reports whether a set has the field, a field below it, or a whole field above it. A parent that is in the set
// only as a map with its own entries does not count.
func owns(set *fieldpath.Set, path fieldpath.Path) bool {
	for i, element := range path {
		here, below := set.Members.Has(element), set.WithPrefix(element)
		if i == len(path)-1 {
			return here || !below.Empty()
		}
		if below.Empty() {
			return here
		}
		set = below
	}
	return false
}

// Appliers returns the managers that have applied the specification of an object, or a part of it, by server-side
// apply.
func Appliers(object *unstructured.Unstructured) []string {
	var all []string
	for _, entry := range object.GetManagedFields() {
		lines, err := owned([]metav1.ManagedFieldsEntry{entry}, []Field{{Path: fieldpath.MakePathOrDie("spec")}})
		if err == nil && len(lines) > 0 && !slices.Contains(all, entry.Manager) {
			all = append(all, entry.Manager)
		}
	}
	return all
}

// HelmRelease is the annotation with the name of the Helm release.
const HelmRelease = "meta.helm.sh/release-name"

// Installers returns the tools that created an object from a repository or a chart, as far as the object shows it.
// Fields that such a tool set by an update, not by server-side apply, have no owner.
func Installers(object *unstructured.Unstructured) []string {
	labels, annotations := object.GetLabels(), object.GetAnnotations()
	var all []string
	for _, one := range []struct{ maker, sign string }{
		{"Helm", annotations[HelmRelease]},
		{"Argo CD", annotations["argocd.argoproj.io/tracking-id"]},
		{"Flux", cmp.Or(labels["kustomize.toolkit.fluxcd.io/name"], labels["helm.toolkit.fluxcd.io/name"])},
	} {
		if one.sign != "" {
			all = append(all, fmt.Sprintf("%s (%s)", one.maker, one.sign))
		}
	}
	return all
}
