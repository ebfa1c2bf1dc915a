// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	v2 "everynode.dev/everynode/api/agent/v2"
)

// document is as much of an OpenAPI document as these tests look at.
type document struct {
	OpenAPI    string
	Paths      map[string]map[string]json.RawMessage
	Components struct{ Schemas map[string]model }
}

type model struct {
	Ref         string `json:"$ref"`
	Type        string
	Format      string
	Required    []string
	Properties  map[string]model
	Items       *model
	Enum        []string
	Description string
}

type operation struct {
	OperationID string
	Responses   map[string]struct{ Description string }
}

func readDocument(t *testing.T) document {
	t.Helper()
	d := document{}
	if err := json.Unmarshal([]byte(OpenAPI()), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestTheDocumentHasAllRoutes(t *testing.T) {
	d := readDocument(t)
	served, described := []string{}, []string{}
	for _, r := range (&API{}).routes() {
		served = append(served, r.method+" "+r.path)
	}
	ids := map[string]bool{}
	for path, item := range d.Paths {
		for method, data := range item {
			if method == "parameters" {
				continue
			}
			described = append(described, strings.ToUpper(method)+" "+path)
			o := operation{}
			if err := json.Unmarshal(data, &o); err != nil || o.OperationID == "" || ids[o.OperationID] || len(o.Responses) == 0 {
				t.Errorf("%s %s: %v %+v", method, path, err, o)
			}
			ids[o.OperationID] = true
		}
		if has := item["parameters"] != nil; has != strings.Contains(path, "{") {
			t.Errorf("%s: parameters are described: %v", path, has)
		}
	}
	slices.Sort(served)
	slices.Sort(described)
	if !slices.Equal(served, described) {
		t.Errorf("served are\n%s\nand described\n%s", strings.Join(served, "\n"), strings.Join(described, "\n"))
	}
}

func TestTheDocumentRefersToWhatIsThere(t *testing.T) {
	d := readDocument(t)
	used := map[string]bool{}
	for _, m := range regexp.MustCompile(`"\$ref": "([^"]*)"`).FindAllStringSubmatch(OpenAPI(), -1) {
		name, ok := strings.CutPrefix(m[1], "#/components/schemas/")
		if _, there := d.Components.Schemas[name]; !ok || !there {
			t.Errorf("there is no %s", m[1])
		}
		used[name] = true
	}
	for name := range d.Components.Schemas {
		if !used[name] {
			t.Errorf("nobody uses %s", name)
		}
	}
}

// The schemas are the types of api/agent/v2: each field with its name and its kind, and required unless it may be left out.
func TestTheDocumentIsTheTypes(t *testing.T) {
	d := readDocument(t)
	types := map[string]reflect.Type{}
	for _, v := range []any{v2.PodList{}, v2.Pod{}, v2.Images{}, v2.Precondition{}, v2.Upgrade{}, v2.ImagePull{}, v2.Decision{}, v2.Error{}} {
		types[reflect.TypeOf(v).Name()] = reflect.TypeOf(v)
	}
	if got, want := slices.Sorted(maps.Keys(d.Components.Schemas)), slices.Sorted(maps.Keys(types)); !slices.Equal(got, want) {
		t.Fatalf("the schemas are %q, and the types %q", got, want)
	}
	for name, s := range d.Components.Schemas {
		names := []string{}
		for i := range types[name].NumField() {
			f := types[name].Field(i)
			tag, omitted, _ := strings.Cut(f.Tag.Get("json"), ",")
			names = append(names, tag)
			if got, want := shape(s.Properties[tag]), shapeOf(f.Type); got != want {
				t.Errorf("%s.%s is %s, and described as %s", name, tag, want, got)
			}
			if slices.Contains(s.Required, tag) == (omitted == "omitempty") {
				t.Errorf("%s.%s is required in one place and not in the other", name, tag)
			}
		}
		slices.Sort(names)
		if got := slices.Sorted(maps.Keys(s.Properties)); !slices.Equal(got, names) {
			t.Errorf("%s has %q, and is described with %q", name, names, got)
		}
	}
}

func shape(s model) string {
	switch {
	case s.Ref != "":
		return s.Ref[strings.LastIndex(s.Ref, "/")+1:]
	case s.Items != nil:
		return "[]" + shape(*s.Items)
	case s.Format != "":
		return s.Format
	}
	return s.Type
}

func shapeOf(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return "date-time"
	case t.Kind() == reflect.Pointer:
		return shapeOf(t.Elem())
	case t.Kind() == reflect.Slice:
		return "[]" + shapeOf(t.Elem())
	case t.Kind() == reflect.Struct:
		return t.Name()
	case t.Kind() == reflect.Bool:
		return "boolean"
	case t.Kind() == reflect.Int:
		return "integer"
	}
	return t.Kind().String()
}

func TestTheDocumentIsServed(t *testing.T) {
	w := newWorld(t)
	if got := w.ask(http.MethodGet, "/v2/openapi.json", "", "Authorization", ""); got.code != 200 || got.contentType != "application/json" || got.body != OpenAPI() {
		t.Errorf("it answers %d %s", got.code, got.contentType)
	}
}
