// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"bytes"
	stdjson "encoding/json"
	"reflect"

	"k8s.io/apimachinery/pkg/util/json"
)

// Equal is whether two templates are the same: whether their canonical forms are. So what one version of the API types
// writes and another leaves out makes no difference (null, the zero creationTimestamp, "resources":{}, an explicit
// false), nor how a number is held in memory; the order of lists does, and so does an empty object whose presence means
// something ("emptyDir":{}). An integer equals what a float64 makes of it, for OpenKruise writes that. A nil template
// equals nothing.
func Equal(a, b map[string]any) bool {
	return knowledge{}.equalTemplates(a, b)
}

// Same is whether two templates mean the same: whether they are equal, or are once defaults are set in both (WithDefaults).
func Same(a, b map[string]any) bool {
	k := knowledge{}
	return k.equalTemplates(a, b) || k.equalWithDefaults(a, b)
}

func (k knowledge) equalTemplates(a, b map[string]any) bool {
	if a == nil || b == nil {
		return false
	}
	return k.equal(withoutPatch(a), withoutPatch(b), templateType())
}

// equal compares two values of the type t; nil is one that is absent. It comes to what comparing the canonical forms
// would come to, without making them: most comparisons end at the first image that differs.
func (k knowledge) equal(a, b any, t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer:
		// Our types have pointers where being there means something.
		if a == nil || b == nil {
			return a == nil && b == nil
		}
		return k.equal(a, b, t.Elem())
	case reflect.Struct:
		return k.equalStructs(a, b, t)
	case reflect.Map:
		return k.equalMaps(a, b, t)
	case reflect.Slice:
		return k.equalLists(a, b, t)
	default:
		return equalScalars(a, b)
	}
}

func (k knowledge) equalStructs(a, b any, t reflect.Type) bool {
	known := k.fields(t)
	if known == nil {
		return equalEncoded(a, b, t)
	}
	x, y, ok := as[map[string]any](a, b)
	if !ok {
		return equalRaw(a, b)
	}
	for key, value := range x {
		if !k.equalMembers(value, y[key], known[key]) {
			return false
		}
	}
	for key, value := range y {
		if _, both := x[key]; !both && !k.equalMembers(nil, value, known[key]) {
			return false
		}
	}
	return true
}

// equalMembers compares members of a struct; t is nil for a field that our types do not know.
func (k knowledge) equalMembers(a, b any, t reflect.Type) bool {
	if t == nil {
		return equalRaw(a, b)
	}
	return k.equal(a, b, t)
}

// equalMaps compares maps, in which, other than in structs, a key that is absent is not one with a zero value.
func (k knowledge) equalMaps(a, b any, t reflect.Type) bool {
	x, y, ok := as[map[string]any](a, b)
	if !ok || len(x) != len(y) {
		return !ok && equalRaw(a, b)
	}
	for key, value := range x {
		other, both := y[key]
		if !both || !k.equal(value, other, t.Elem()) {
			return false
		}
	}
	return true
}

func (k knowledge) equalLists(a, b any, t reflect.Type) bool {
	x, y, ok := as[[]any](a, b)
	if !ok || len(x) != len(y) {
		return !ok && equalRaw(a, b)
	}
	for i := range x {
		if !k.equal(x[i], y[i], t.Elem()) {
			return false
		}
	}
	return true
}

// as is a and b as values of the type T, of which nil is the zero value; false if one is something else.
func as[T any](a, b any) (x, y T, ok bool) {
	x, xOK := a.(T)
	y, yOK := b.(T)
	return x, y, (xOK || a == nil) && (yOK || b == nil)
}

// equalScalars compares strings, numbers and booleans; one that is absent has the zero value.
func equalScalars(a, b any) bool {
	if a == nil {
		a, b = b, a
	}
	if b == nil {
		return isZero(a)
	}
	return equalRaw(a, b)
}

func isZero(value any) bool {
	n, isNumber := number(value)
	return value == nil || value == "" || value == false || isNumber && n == 0
}

// equalEncoded compares values of a type with an encoding of its own, which knows that "1000m" and 1 are the same
// quantity.
func equalEncoded(a, b any, t reflect.Type) bool {
	if equalRaw(a, b) {
		return true
	}
	x, errX := reencode(a, t)
	y, errY := reencode(b, t)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// reencode decodes value as a t and encodes it again.
func reencode(value any, t reflect.Type) ([]byte, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	typed := reflect.New(t).Interface()
	if err := json.Unmarshal(data, typed); err != nil {
		return nil, err
	}
	return stdjson.Marshal(typed)
}
