// SPDX-License-Identifier: Apache-2.0

package revision

import (
	stdjson "encoding/json"
	"reflect"
	"strings"
)

// addUnknown copies from raw into form, its canonical form, the fields that the type t does not know, at any depth, and
// returns form. Example: {"name":"a","image":null,"stdin":false,"newField":{"x":1,"y":null}} has the form {"name":"a"};
// what is added is "newField":{"x":1}.
func addUnknown(form, raw any, t reflect.Type) any {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if encodesItself(t) {
		return form
	}
	switch t.Kind() {
	case reflect.Struct:
		return addToStruct(form, raw, t)
	case reflect.Map:
		return addToMap(form, raw, t)
	case reflect.Slice:
		return addToList(form, raw, t)
	default:
		return form
	}
}

// encodesItself is whether t has its own encoding (quantities, times, int-or-string): it has no fields to look into.
func encodesItself(t reflect.Type) bool {
	marshaler := reflect.TypeFor[stdjson.Marshaler]()
	return t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler)
}

func addToStruct(form, raw any, t reflect.Type) any {
	rawMap, ok := raw.(map[string]any)
	if !ok {
		return form
	}
	formMap, present := form.(map[string]any)
	if !present {
		formMap = map[string]any{}
	}
	known := jsonFields(t)
	for key, value := range rawMap {
		if value == nil {
			continue
		}
		if fieldType, isKnown := known[key]; !isKnown {
			formMap[key] = withoutNulls(value)
		} else if sub := addUnknown(formMap[key], value, fieldType); sub != nil {
			formMap[key] = sub
		}
	}
	return orNothing(formMap, present)
}

func addToMap(form, raw any, t reflect.Type) any {
	rawMap, ok := raw.(map[string]any)
	if !ok {
		return form
	}
	formMap, present := form.(map[string]any)
	if !present {
		formMap = map[string]any{}
	}
	for key, value := range rawMap {
		if sub := addUnknown(formMap[key], value, t.Elem()); sub != nil {
			formMap[key] = sub
		}
	}
	return orNothing(formMap, present)
}

// orNothing is m, or nil when m was not there and nothing came into it: an empty object that the canonical form leaves
// out stays out.
func orNothing(m map[string]any, present bool) any {
	if !present && len(m) == 0 {
		return nil
	}
	return m
}

func addToList(form, raw any, t reflect.Type) any {
	formList, formOK := form.([]any)
	rawList, rawOK := raw.([]any)
	if !formOK || !rawOK || len(formList) != len(rawList) {
		return form
	}
	for i := range formList {
		formList[i] = addUnknown(formList[i], rawList[i], t.Elem())
	}
	return formList
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

// withoutNulls is a copy of value without the null members of its objects; null in a list keeps its place.
func withoutNulls(value any) any {
	switch value := value.(type) {
	case map[string]any:
		kept := make(map[string]any, len(value))
		for key, member := range value {
			if member != nil {
				kept[key] = withoutNulls(member)
			}
		}
		return kept
	case []any:
		kept := make([]any, len(value))
		for i, item := range value {
			kept[i] = withoutNulls(item)
		}
		return kept
	default:
		return value
	}
}
