// SPDX-License-Identifier: Apache-2.0

package change

import (
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"everynode.dev/everynode/internal/cli/options"
)

// Outcome is the result for one object.
type Outcome struct {
	Object Object
	Result *Result
	// Done describes what was done; it is printed after the name of the object.
	Done string
	// MakerTold reports whether the caller prints its own, more detailed warning about tools that may revert the change.
	MakerTold bool
}

// Report prints outcomes: the objects as JSON or YAML (a list unless there is exactly one), or a line for each. For dry
// runs, and when nothing changed, it prints the fields too. It warns if kubectl apply has also written a field, or if
// Helm, Argo CD or Flux manages the object, because then the change may be reverted.
func Report(o *options.Options, flags Flags, all ...Outcome) error {
	if err := o.Print(shown(all), func(w io.Writer) error { return table(w, o, flags, all) }); err != nil {
		return err
	}
	for _, one := range all {
		if fields := lastApplied(one.Object.Read, one.Result.Fields); len(fields) > 0 {
			Note(o, "kubectl apply has also written %s of %s: change the manifest too, or the next apply reverts this",
				strings.Join(fields, ", "), one.Object.Name())
		}
		if one.MakerTold || len(one.Result.Fields) == 0 {
			continue
		}
		for _, maker := range Installers(one.Object.Read) {
			Note(o, "%s is managed by %s: change it there too, or this may be reverted", one.Object.Name(), maker)
		}
	}
	return nil
}

// Note prints additional information for the user.
func Note(o *options.Options, format string, args ...any) {
	o.Note(format, args...)
}

// shown returns the output for programs.
func shown(all []Outcome) any {
	items := []any{}
	for _, one := range all {
		object := one.Result.Object.DeepCopy()
		object.SetManagedFields(nil)
		items = append(items, object.Object)
	}
	if len(items) == 1 {
		return items[0]
	}
	return map[string]any{"apiVersion": "v1", "kind": "List", "items": items}
}

func table(w io.Writer, o *options.Options, flags Flags, all []Outcome) error {
	for _, one := range all {
		done := one.Done
		if len(one.Result.Fields) == 0 {
			done = "unchanged"
		}
		lines := []string{one.Object.Name() + " " + done + flags.Suffix()}
		if flags.Dry() || o.Wide() {
			for _, f := range one.Result.Fields {
				lines = append(lines, "  "+f.String())
			}
		}
		for _, line := range lines {
			if _, err := fmt.Fprintln(w, options.Printable(line)); err != nil {
				return fmt.Errorf("printing what has changed: %w", err)
			}
		}
	}
	return nil
}

// lastApplied returns the fields in the last applied configuration of kubectl apply.
func lastApplied(object *unstructured.Unstructured, fields []Field) []string {
	var last map[string]any
	if json.Unmarshal([]byte(object.GetAnnotations()[corev1.LastAppliedConfigAnnotation]), &last) != nil {
		return nil
	}
	var names []string
	for _, f := range fields {
		if hasPath(last, f.Path) {
			names = append(names, f.Path.String())
		}
	}
	return names
}

// hasPath reports whether the object has the path.
func hasPath(value any, path fieldpath.Path) bool {
	for _, element := range path {
		switch {
		case element.FieldName != nil:
			object, _ := value.(map[string]any)
			value = object[*element.FieldName]
		case element.Key != nil && len(*element.Key) == 1:
			value = entry(value, (*element.Key)[0].Value.AsString())
		}
		if value == nil {
			return false
		}
	}
	return true
}

func entry(list any, name string) any {
	entries, _ := list.([]any)
	for _, one := range entries {
		if nameOf(one) == name {
			return one
		}
	}
	return nil
}
