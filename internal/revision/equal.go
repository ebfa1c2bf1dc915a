// SPDX-License-Identifier: Apache-2.0

package revision

// Equal is whether two templates are the same: whether their canonical forms are. So what one version of the API types
// writes and another leaves out makes no difference (null, the zero creationTimestamp, "resources":{}, an explicit
// false), nor how a number is held in memory; the order of lists does, and so does an empty object whose presence means
// something ("emptyDir":{}). Numbers are compared as float64, for revisions hold no more of them.
func Equal(a, b map[string]any) bool {
	return equalForms(comparableForm(a), comparableForm(b))
}

// comparableForm is the canonical form of template; if our types cannot read it, the next best, so that at least a template
// is equal to itself.
func comparableForm(template map[string]any) map[string]any {
	if template == nil {
		return nil
	}
	template = withoutPatch(template)
	form, err := canonical(template)
	if err != nil {
		form, _ = withoutNulls(template).(map[string]any)
	}
	return form
}

// equalForms is whether two canonical forms are the same. There is no template at all in a nil form, and it equals none.
func equalForms(a, b map[string]any) bool {
	return a != nil && b != nil && equalValues(a, b)
}

func equalValues(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && equalObjects(a, b)
	case []any:
		b, ok := b.([]any)
		return ok && equalLists(a, b)
	}
	if x, ok := number(a); ok {
		y, ok := number(b)
		return ok && x == y
	}
	switch a := a.(type) {
	case nil:
		return b == nil
	case string:
		b, ok := b.(string)
		return ok && a == b
	case bool:
		b, ok := b.(bool)
		return ok && a == b
	default:
		// Nothing else occurs in what a JSON decoder returns.
		return false
	}
}

func equalObjects(a, b map[string]any) bool {
	if len(a) != len(b) {
		return false
	}
	for key, value := range a {
		other, ok := b[key]
		if !ok || !equalValues(value, other) {
			return false
		}
	}
	return true
}

func equalLists(a, b []any) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !equalValues(a[i], b[i]) {
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
