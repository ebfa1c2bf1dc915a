// SPDX-License-Identifier: Apache-2.0

package revision

import (
	stdjson "encoding/json"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// templateType is what our types know of a pod template.
func templateType() reflect.Type { return reflect.TypeFor[corev1.PodTemplateSpec]() }

// knowledge remembers the fields of our types by JSON name; nil for a type that encodes itself and has no fields to look
// into. It lives as long as one comparison: finding fields by reflection anew every time would be most of the work.
type knowledge map[reflect.Type]map[string]reflect.Type

// fields are the fields of the struct t by JSON name; nil if t encodes itself.
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

// encodesItself is whether t has an encoding of its own, like quantities, times and int-or-string.
func encodesItself(t reflect.Type) bool {
	marshaler := reflect.TypeFor[stdjson.Marshaler]()
	return t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler)
}

// jsonFields are the types of the fields of the struct t by their JSON names, those of inlined structs included.
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
