// SPDX-License-Identifier: Apache-2.0

package revision

import (
	stdjson "encoding/json"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// templateType is the Go type of a pod template.
func templateType() reflect.Type { return reflect.TypeFor[corev1.PodTemplateSpec]() }

// knowledge caches the fields of our types by JSON name; the value is nil for a type with a custom encoding. It is kept
// for one comparison only, in which finding the fields by reflection each time would be most of the work.
type knowledge map[reflect.Type]map[string]reflect.Type

// fields returns the fields of the struct t by JSON name; nil if t has a custom encoding.
func (k knowledge) fields(t reflect.Type) map[string]reflect.Type {
	fields, ok := k[t]
	if !ok {
		if !encodesItself(t) {
			fields = jsonFields(t)
		}
		k[t] = fields
	}
	return fields
}

// encodesItself reports whether t has a custom encoding, like quantities, times and int-or-string.
func encodesItself(t reflect.Type) bool {
	marshaler := reflect.TypeFor[stdjson.Marshaler]()
	return t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler)
}

// jsonFields returns the types of the fields of the struct t by JSON name, including those of inlined structs.
func jsonFields(t reflect.Type) map[string]reflect.Type {
	fields := make(map[string]reflect.Type, t.NumField())
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case name == "" && field.Anonymous:
			for inlined, inlinedType := range jsonFields(field.Type) {
				fields[inlined] = inlinedType
			}
		case name == "":
			fields[field.Name] = field.Type
		default:
			fields[name] = field.Type
		}
	}
	return fields
}
