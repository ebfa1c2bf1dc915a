// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"everynode.dev/everynode/internal/arch"
)

const header = "// SPDX-License-Identifier: Apache-2.0\n\n"

func tree(t *testing.T, files map[string]string) *arch.Tree {
	t.Helper()
	fsys := fstest.MapFS{"go.mod": {Data: []byte("module everynode.dev/everynode\n")}}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(header + text)}
	}
	loaded, err := arch.Load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

func TestConstants(t *testing.T) {
	groups, err := constants(tree(t, map[string]string{"a/a.go": `package a

import "example.com/unknown"

// Domain is the domain.
const Domain = "x.dev"

type Kind int

// The kinds.
const (
	Zero Kind = iota // nothing

	// Something.
	One // one thing
	// Two is two
	// things.
	Two
	three
)

// The keys.
const (
	Key = Domain + "/key"
	Foreign = unknown.Name // from elsewhere
)
`}), "a")
	if err != nil {
		t.Fatal(err)
	}
	want := []group{
		{"Domain is the domain.", []declared{{name: "Domain", doc: "Domain is the domain.", value: "x.dev", kind: "string"}}},
		{"The kinds.", []declared{{name: "Zero", doc: "nothing", kind: "Kind"}}},
		{"Something.", []declared{
			{name: "One", doc: "one thing", number: 1, kind: "Kind"},
			{name: "Two", doc: "Two is two things.", number: 2, kind: "Kind"},
		}},
		{"The keys.", []declared{{name: "Key", value: "x.dev/key", kind: "string"}, {name: "Foreign", doc: "from elsewhere", kind: "string"}}},
	}
	if len(groups) != len(want) {
		t.Fatalf("%d groups, want %d: %+v", len(groups), len(want), groups)
	}
	for i, g := range groups {
		if g.heading != want[i].heading {
			t.Errorf("group %d has heading %q, want %q", i, g.heading, want[i].heading)
		}
		for j, d := range g.constants {
			if d != want[i].constants[j] {
				t.Errorf("got %+v, want %+v", d, want[i].constants[j])
			}
		}
	}
}

func TestAnnotationWithoutCommentIsRefused(t *testing.T) {
	_, err := annotations(tree(t, map[string]string{"api/everynode/names.go": "package everynode\n\nconst Key = \"x\"\n"}))
	if err == nil || !strings.Contains(err.Error(), "api/everynode.Key has no comment") {
		t.Errorf("got error %v", err)
	}
}

func TestVerdictWithoutDeclarationIsRefused(t *testing.T) {
	_, err := verdicts(tree(t, map[string]string{"internal/rollout/plan.go": "package rollout\n\ntype VerdictKind int\n\n// The one.\nconst One VerdictKind = 1\n"}))
	if err == nil || !strings.Contains(err.Error(), "declaration of 1 verdicts") {
		t.Errorf("got error %v", err)
	}
}

func TestRunWritesEveryPageOfThisRepository(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "docs", "reference")
	if err := run(os.DirFS(filepath.Join("..", "..")), dir); err != nil {
		t.Fatal(err)
	}
	for _, p := range pages() {
		data, err := os.ReadFile(filepath.Join(dir, p.file))
		if err != nil {
			t.Error(err)
		} else if strings.HasSuffix(p.file, ".json") {
			if !json.Valid(data) {
				t.Errorf("%s is no JSON: %.80q", p.file, data)
			}
		} else if text, ok := strings.CutPrefix(string(data), notice); !ok || !strings.HasPrefix(text, "# ") {
			t.Errorf("%s does not begin with the notice and a title: %.80q", p.file, data)
		}
	}
}
