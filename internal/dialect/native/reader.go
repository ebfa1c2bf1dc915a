// SPDX-License-Identifier: Apache-2.0

package native

import (
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/util/json"

	"everynode.dev/everynode/internal/dialect"
)

// object is an object inside of the DaemonSet and where it stands; fields is nil when it is absent or not an object.
type object struct {
	path   string
	fields map[string]any
}

// at is the path of a member of o.
func (o object) at(key string) string {
	if o.path == "" {
		return key
	}
	return o.path + "." + key
}

// reader reads fields and collects what is wrong with them.
type reader struct {
	problems []dialect.Problem
}

// invalid notes that the field at path cannot be honoured; what goes after the path in a sentence.
func (r *reader) invalid(path, format string, args ...any) {
	r.problems = append(r.problems, dialect.Problem{
		Reason:  ReasonInvalidSpec,
		Message: "Field " + path + " " + fmt.Sprintf(format, args...) + ".",
		Fatal:   true,
	})
}

// warn notes something that does not keep the set from being worked on.
func (r *reader) warn(reason, format string, args ...any) {
	r.problems = append(r.problems, dialect.Problem{Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// optional is the object at key, without fields when it is absent.
func (r *reader) optional(parent object, key string) object {
	o := object{path: parent.at(key)}
	value := parent.fields[key]
	if value == nil {
		return o
	}
	fields, ok := value.(map[string]any)
	if !ok {
		r.invalid(o.path, "is %s: make it an object", describe(value))
		return o
	}
	o.fields = fields
	return o
}

// required is the object at key, which must be there.
func (r *reader) required(parent object, key string) object {
	if parent.fields != nil && parent.fields[key] == nil {
		r.invalid(parent.at(key), "is missing: add it")
	}
	return r.optional(parent, key)
}

// text is the string at key, or fallback when it is absent or empty.
func (r *reader) text(parent object, key, fallback string) string {
	value := parent.fields[key]
	if value == nil {
		return fallback
	}
	text, ok := value.(string)
	if !ok {
		r.invalid(parent.at(key), "is %s: make it a string", describe(value))
	}
	if text == "" {
		return fallback
	}
	return text
}

// count is the number at key, or fallback when it is absent.
func (r *reader) count(parent object, key string, fallback int) int {
	value := parent.fields[key]
	if value == nil {
		return fallback
	}
	n, ok := integer(value)
	if !ok || n < 0 || n > math.MaxInt32 {
		r.invalid(parent.at(key), "is %s: set it to a whole number from 0 to %d", describe(value), math.MaxInt32)
		return fallback
	}
	return int(n)
}

// integer is value as a whole number; decoders hand out both int64 and float64.
func integer(value any) (int64, bool) {
	switch value := value.(type) {
	case int64:
		return value, true
	case int:
		return int64(value), true
	case int32:
		return int64(value), true
	case float64:
		// Beyond 2^53 not every whole number has a float64 of its own, so none of these can be trusted.
		if value != math.Trunc(value) || math.Abs(value) > 1<<53 {
			return 0, false
		}
		return int64(value), true
	default:
		return 0, false
	}
}

// describe shows value in a sentence: as JSON, cut when it is long.
func describe(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprintf("of type %T", value)
	}
	const most = 40
	if len(data) > most {
		return string(data[:most]) + "…"
	}
	return string(data)
}

// decode decodes value into a typed variable; an absent value leaves it alone.
func decode(value, into any) error {
	if value == nil {
		return nil
	}
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}
