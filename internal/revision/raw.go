// SPDX-License-Identifier: Apache-2.0

package revision

// equalRaw compares decoded values for which we have no types. A null member of an object is absent.
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
		return equalNumbers(a, b)
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

// equalNumbers compares numbers by value. Two different integers are also equal if one may be the float64 approximation
// of the other: 9007199254740993 becomes 9007199254740992.
func equalNumbers(a, b any) bool {
	x, okX := number(a)
	y, okY := number(b)
	if !okX || !okY || x != y {
		return false
	}
	i, okI := a.(int64)
	j, okJ := b.(int64)
	return !okI || !okJ || i == j || int64(float64(i)) == i || int64(float64(j)) == j
}

func number(value any) (float64, bool) {
	switch value := value.(type) {
	case int64:
		return float64(value), true
	case float64:
		return value, true
	default:
		return 0, false
	}
}
