// SPDX-License-Identifier: Apache-2.0

package revision

import "reflect"

// addUnknown copies the fields that the type t does not have, at any depth, from raw into its canonical form, and
// returns the form. Example: {"name":"a","image":null,"stdin":false,"newField":{"x":1,"y":null}} has the form
// {"name":"a"}; addUnknown adds "newField":{"x":1}.
func (k knowledge) addUnknown(form, raw any, t reflect.Type) any {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Struct:
		return k.addToStruct(form, raw, t)
	case reflect.Map:
		return k.addToMap(form, raw, t)
	case reflect.Slice:
		return k.addToList(form, raw, t)
	default:
		return form
	}
}

func (k knowledge) addToStruct(form, raw any, t reflect.Type) any {
	known := k.fields(t)
	rawMap, ok := raw.(map[string]any)
	if !ok || known == nil {
		return form
	}
	formMap, present := form.(map[string]any)
	if !present {
		formMap = map[string]any{}
	}
	for key, value := range rawMap {
		if value == nil {
			continue
		}
		if fieldType, isKnown := known[key]; !isKnown {
			formMap[key] = withoutNulls(value)
		} else if sub := k.addUnknown(formMap[key], value, fieldType); sub != nil {
			formMap[key] = sub
		}
	}
	return orNothing(formMap, present)
}

func (k knowledge) addToMap(form, raw any, t reflect.Type) any {
	rawMap, ok := raw.(map[string]any)
	if !ok {
		return form
	}
	formMap, present := form.(map[string]any)
	if !present {
		formMap = map[string]any{}
	}
	for key, value := range rawMap {
		if sub := k.addUnknown(formMap[key], value, t.Elem()); sub != nil {
			formMap[key] = sub
		}
	}
	return orNothing(formMap, present)
}

// orNothing returns m, or nil if m was absent and is still empty: an empty object that the canonical form omits must
// not be added.
func orNothing(m map[string]any, present bool) any {
	if !present && len(m) == 0 {
		return nil
	}
	return m
}

func (k knowledge) addToList(form, raw any, t reflect.Type) any {
	formList, formOK := form.([]any)
	rawList, rawOK := raw.([]any)
	if !formOK || !rawOK || len(formList) != len(rawList) {
		return form
	}
	for i := range formList {
		formList[i] = k.addUnknown(formList[i], rawList[i], t.Elem())
	}
	return formList
}

// withoutNulls returns a copy of value without the null members of its objects. A null in a list is kept.
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
