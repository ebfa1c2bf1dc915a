// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"bytes"
	stdjson "encoding/json"
	"reflect"

	"k8s.io/apimachinery/pkg/util/json"
)

// Equal reports whether two templates have the same canonical form. Differences in what versions of the API types write
// or omit are ignored (null, the zero creationTimestamp, "resources":{}, an explicit false), and so is the Go type of a
// number. The order of lists matters, and so does an empty object whose presence has a meaning ("emptyDir":{}). An
// integer equals its float64 approximation, because OpenKruise writes that. A nil template equals nothing.
func Equal(a, b map[string]any) bool {
	return knowledge{}.equalTemplates(a, b)
}

// Same reports whether two templates have the same meaning: they are equal, or equal after defaults are set in both
// (WithDefaults).
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

// equal compares two values of the type t; nil means absent. The result is the same as comparing the canonical forms,
// but they are not built: most comparisons end at the first image that differs.
func (k knowledge) equal(a, b any, t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer:
		// Our types use pointers where presence has a meaning.
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

// equalMembers compares members of a struct; t is nil for a field that our types do not have.
func (k knowledge) equalMembers(a, b any, t reflect.Type) bool {
	if t == nil {
		return equalRaw(a, b)
	}
	return k.equal(a, b, t)
}

// equalMaps compares maps. Unlike in structs, an absent key and a key with a zero value are different.
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

// as converts a and b to the type T; nil becomes the zero value. ok is false if one of them has another type.
func as[T any](a, b any) (x, y T, ok bool) {
	x, xOK := a.(T)
	y, yOK := b.(T)
	return x, y, (xOK || a == nil) && (yOK || b == nil)
}

// equalScalars compares strings, numbers and booleans; an absent value is the zero value.
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

// equalEncoded compares values of a type with a custom encoding, for example the quantities "1000m" and 1, which are
// equal.
func equalEncoded(a, b any, t reflect.Type) bool {
	if equalRaw(a, b) {
		return true
	}
	x, errX := reencode(a, t)
	y, errY := reencode(b, t)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// reencode decodes value as type t and encodes it again.
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
