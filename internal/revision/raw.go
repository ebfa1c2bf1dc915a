// SPDX-License-Identifier: Apache-2.0

package revision

// equalRaw compares values that our types do not know, as decoders return them. A null member of an object is absent,
// numbers are compared as float64.
func equalRaw(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && equalRawObjects(a, b)
	case []any:
		b, ok := b.([]any)
		return ok && equalRawLists(a, b)
	case nil:
		return b == nil
	case string:
		b, ok := b.(string)
		return ok && a == b
	case bool:
		b, ok := b.(bool)
		return ok && a == b
	default:
		x, okX := number(a)
		y, okY := number(b)
		return okX && okY && x == y
	}
}

func equalRawObjects(a, b map[string]any) bool {
	for key, value := range a {
		if !equalRaw(value, b[key]) {
			return false
		}
	}
	for key, value := range b {
		if _, both := a[key]; !both && value != nil {
			return false
		}
	}
	return true
}

func equalRawLists(a, b []any) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !equalRaw(a[i], b[i]) {
			return false
		}
	}
	return true
}

func number(value any) (float64, bool) {
	switch value := value.(type) {
	case int:
		return float64(value), true
	case int32:
		return float64(value), true
	case int64:
		return float64(value), true
	case float64:
		return value, true
	default:
		return 0, false
	}
}
