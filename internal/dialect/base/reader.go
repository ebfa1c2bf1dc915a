// SPDX-License-Identifier: Apache-2.0

package base

import (
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/util/json"

	"everynode.dev/everynode/internal/dialect"
)

// Object is an object inside of the DaemonSet and its path; Fields is nil when it is absent or not an object.
type Object struct {
	Path   string
	Fields map[string]any
}

// At is the path of a member of o.
func (o Object) At(key string) string {
	if o.Path == "" {
		return key
	}
	return o.Path + "." + key
}

// Reader reads fields and collects what is wrong with them.
type Reader struct {
	problems []dialect.Problem
}

// Problems is what was found to be wrong.
func (r *Reader) Problems() []dialect.Problem { return r.problems }

// Invalid notes that the field at path cannot be honoured; what goes after the path in a sentence.
func (r *Reader) Invalid(path, format string, args ...any) {
	r.problems = append(r.problems, dialect.Problem{
		Reason:  ReasonInvalidSpec,
		Message: "Field " + path + " " + fmt.Sprintf(format, args...) + ".",
		Fatal:   true,
	})
}

// Warn records a problem that does not prevent reconciliation of the set.
func (r *Reader) Warn(reason, format string, args ...any) {
	r.problems = append(r.problems, dialect.Problem{Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// Optional is the object at key, without fields when it is absent.
func (r *Reader) Optional(parent Object, key string) Object {
	o := Object{Path: parent.At(key)}
	value := parent.Fields[key]
	if value == nil {
		return o
	}
	fields, ok := value.(map[string]any)
	if !ok {
		r.Invalid(o.Path, "is %s: make it an object", Describe(value))
		return o
	}
	o.Fields = fields
	return o
}

// Required is the object at key, which must be there.
func (r *Reader) Required(parent Object, key string) Object {
	if parent.Fields != nil && parent.Fields[key] == nil {
		r.Invalid(parent.At(key), "is missing: add it")
	}
	return r.Optional(parent, key)
}

// Text is the string at key, or fallback when it is absent or empty.
func (r *Reader) Text(parent Object, key, fallback string) string {
	value := parent.Fields[key]
	if value == nil {
		return fallback
	}
	text, ok := value.(string)
	if !ok {
		r.Invalid(parent.At(key), "is %s: make it a string", Describe(value))
	}
	if text == "" {
		return fallback
	}
	return text
}

// Count is the number at key, or fallback when it is absent.
func (r *Reader) Count(parent Object, key string, fallback int) int {
	value := parent.Fields[key]
	if value == nil {
		return fallback
	}
	n, ok := Integer(value)
	if !ok || n < 0 || n > math.MaxInt32 {
		r.Invalid(parent.At(key), "is %s: set it to a whole number from 0 to %d", Describe(value), math.MaxInt32)
		return fallback
	}
	return int(n)
}

// Integer is value as a whole number; decoders hand out both int64 and float64.
func Integer(value any) (int64, bool) {
	switch value := value.(type) {
	case int64:
		return value, true
	case int:
		return int64(value), true
	case int32:
		return int64(value), true
	case float64:
		// Beyond 2^53, several whole numbers have the same float64, so none of them can be trusted.
		if value != math.Trunc(value) || math.Abs(value) > 1<<53 {
			return 0, false
		}
		return int64(value), true
	default:
		return 0, false
	}
}

// Describe shows value in a sentence: as JSON, cut when it is long.
func Describe(value any) string {
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

// Decode decodes value into a typed variable; an absent value does not change it.
func Decode(value, into any) error {
	if value == nil {
		return nil
	}
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}
