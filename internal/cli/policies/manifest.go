// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/cli/options"
)

// durationRemedy is how durations are written.
const durationRemedy = "write a duration such as 30s, 10m or 24h"

// Parse reads the RolloutPolicy in one YAML document. Errors name the fields that cannot be read, with their paths. It also returns the object as it is written.
func Parse(document []byte) (typed *v1alpha1.RolloutPolicy, object map[string]any, err error) {
	data, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // the caller names the file
	}
	if err := json.Unmarshal(data, &object); err != nil {
		return nil, nil, fmt.Errorf("it holds no object: %w", err)
	}
	typed = &v1alpha1.RolloutPolicy{}
	if object["apiVersion"] != v1alpha1.GroupVersion().String() || object["kind"] != v1alpha1.KindPolicy {
		return nil, nil, fmt.Errorf("it holds no RolloutPolicy of %s: write one with `%s policy init NAME`", v1alpha1.GroupVersion(), options.Program)
	}
	c := &checker{}
	if c.check("", object, reflect.TypeFor[v1alpha1.RolloutPolicy]()); len(c.problems) > 0 {
		return nil, nil, fmt.Errorf("%s", strings.Join(c.problems, "; "))
	}
	if err := json.Unmarshal(data, typed); err != nil {
		return nil, nil, fmt.Errorf("decoding it: %w", err)
	}
	return typed, object, nil
}

// checker compares a decoded document with a type of the API, and collects the fields that the type does not have or that have another type.
type checker struct{ problems []string }

func (c *checker) problem(path, format string, args ...any) {
	c.problems = append(c.problems, path+": "+fmt.Sprintf(format, args...))
}

func (c *checker) check(path string, value any, t reflect.Type) {
	if value == nil {
		return
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		c.leaf(path, value, t)
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		c.object(path, value, t)
	case reflect.Map:
		fields, ok := value.(map[string]any)
		if !ok {
			c.problem(path, "it is %s: write an object", kindName(value))
		}
		for _, key := range slices.Sorted(maps.Keys(fields)) {
			c.check(path+"."+key, fields[key], t.Elem())
		}
	case reflect.Slice:
		list, ok := value.([]any)
		if !ok {
			c.problem(path, "it is %s: write a list", kindName(value))
		}
		for i := range list {
			c.check(fmt.Sprintf("%s[%d]", path, i), list[i], t.Elem())
		}
	default:
		c.leaf(path, value, t)
	}
}

func (c *checker) object(path string, value any, t reflect.Type) {
	fields, ok := value.(map[string]any)
	if !ok {
		c.problem(path, "it is %s: write an object", kindName(value))
		return
	}
	known := fieldsOf(t)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		at := strings.TrimPrefix(path+"."+name, ".")
		of, ok := known[name]
		if !ok {
			c.problem(at, "there is no such field: correct its name or remove it; the fields are %s", strings.Join(slices.Sorted(maps.Keys(known)), ", "))
			continue
		}
		c.check(at, fields[name], of)
	}
}

// fieldsOf returns the types of the fields of a struct, by their names in JSON.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	known := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case name == "" && f.Anonymous:
			maps.Copy(known, fieldsOf(f.Type))
		default:
			known[name] = f.Type
		}
	}
	return known
}

// leaf checks a value that is decoded as a whole.
func (c *checker) leaf(path string, value any, t reflect.Type) {
	data, err := json.Marshal(value)
	if err != nil {
		return // it was decoded from JSON, so it can be encoded
	}
	if json.Unmarshal(data, reflect.New(t).Interface()) == nil {
		return
	}
	switch {
	case t == reflect.TypeFor[metav1.Duration]():
		c.problem(path, "%s is not a duration: %s", data, durationRemedy)
	case t == reflect.TypeFor[metav1.Time]():
		c.problem(path, "%s is not a time: write one such as 2026-12-24T18:00:00Z", data)
	case t.Kind() == reflect.String:
		c.problem(path, "%s is %s: write a text, in quotes if it looks like a number", data, kindName(value))
	case t.Kind() == reflect.Bool:
		c.problem(path, "%s is %s: write true or false", data, kindName(value))
	case t.Kind() == reflect.Struct: // the only other one in a policy is a number or a percentage
		c.problem(path, "%s is neither a number nor a percentage such as 10%%", data)
	default:
		c.problem(path, "%s is %s: write a whole number", data, kindName(value))
	}
}

func kindName(value any) string {
	switch value.(type) {
	case string:
		return "a text"
	case bool:
		return "true or false"
	case float64:
		return "a number"
	case []any:
		return "a list"
	default:
		return "an object"
	}
}

// duration is a flag with a duration, whose error says how one is written.
type duration struct{ value *time.Duration }

func (d duration) String() string {
	if d.value == nil {
		return "0s"
	}
	return d.value.String()
}

func (d duration) Set(text string) error {
	value, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%s", durationRemedy)
	}
	*d.value = value
	return nil
}

func (d duration) Type() string { return "duration" }
