// SPDX-License-Identifier: Apache-2.0

package change

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Field is one field that differs.
type Field struct {
	Path fieldpath.Path
	// From and To are the old and the new value; nil means absent.
	From, To any
}

// String returns the field and both values.
func (f Field) String() string { return f.Path.String() + ": " + short(f.From) + " -> " + short(f.To) }

// longest is the maximum length of a printed value.
const longest = 120

func short(value any) string {
	if value == nil {
		return "(none)"
	}
	data, err := json.Marshal(value)
	if err != nil || len(data) > longest {
		return "(…)"
	}
	return string(data)
}

// Fields returns the fields in which two objects differ, sorted by path. Null and absent are the same.
func Fields(before, after map[string]any) []Field {
	d := differ{}
	d.maps(nil, before, after)
	return d.fields
}

type differ struct{ fields []Field }

func (d *differ) values(path fieldpath.Path, a, b any) {
	x, isMap := a.(map[string]any)
	y, areMaps := b.(map[string]any)
	if (isMap || a == nil) && (areMaps || b == nil) && len(x)+len(y) > 0 {
		d.maps(path, x, y)
		return
	}
	left, isList := a.([]any)
	right, areLists := b.([]any)
	if isList && areLists && d.lists(path, left, right) {
		return
	}
	if !reflect.DeepEqual(a, b) {
		d.fields = append(d.fields, Field{Path: path.Copy(), From: a, To: b})
	}
}

func (d *differ) maps(path fieldpath.Path, a, b map[string]any) {
	keys := slices.Collect(maps.Keys(a))
	for key := range b {
		if _, both := a[key]; !both {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		d.values(append(path, fieldpath.FieldNameElement(key)), a[key], b[key])
	}
}

// named lists the lists whose entries are identified by name. A change of any other list is reported as a change of the
// whole list.
func named() []string { return []string{"containers", "initContainers", "env", "volumes"} }

// lists compares two lists entry by entry if they have the same entries in the same order.
func (d *differ) lists(path fieldpath.Path, a, b []any) bool {
	last := path[len(path)-1].FieldName
	if last == nil || !slices.Contains(named(), *last) || len(a) != len(b) {
		return false
	}
	for i := range a {
		if nameOf(a[i]) == "" || nameOf(a[i]) != nameOf(b[i]) {
			return false
		}
	}
	for i := range a {
		d.values(append(path, fieldpath.KeyElementByFields("name", nameOf(a[i]))), a[i], b[i])
	}
	return true
}

func nameOf(entry any) string {
	object, _ := entry.(map[string]any)
	name, _ := object["name"].(string)
	return name
}
