// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/spf13/pflag"
)

const header = "// SPDX-License-Identifier: Apache-2.0\n\n"

func tree(t *testing.T, files map[string]string) *sources {
	t.Helper()
	fsys := fstest.MapFS{"go.mod": {Data: []byte("module everynode.dev/everynode\n")}}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(header + text)}
	}
	loaded, err := load(fsys)
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

// TestNamesSpeakOfValues: what a constant is called in Go means nothing to a user, and what stands alone is below no heading of others.
func TestNamesSpeakOfValues(t *testing.T) {
	page, err := namesIn(tree(t, map[string]string{"a/a.go": `package a

// Domain is the domain.
const Domain = "x.dev"

// The keys.
const (
	// Key stands with the value KeyValue on a pod.
	Key = Domain + "/key"
	// KeyValue is the value of Key.
	KeyValue = "yes"
)
`}), "a", "# Names\n")
	want := "# Names\n\n## The keys\n\n### `x.dev/key`\n\nStands with the value `yes` on a pod.\n\n### `yes`\n\nThe value of `x.dev/key`.\n" +
		"\n## Other names\n\n### `x.dev`\n\nThe domain.\n"
	if err != nil || page != want {
		t.Errorf("got\n%s\nwant\n%s\n%v", page, want, err)
	}
}

func TestVerdictWithoutDeclarationIsRefused(t *testing.T) {
	_, err := verdicts(tree(t, map[string]string{"internal/rollout/plan.go": "package rollout\n\ntype VerdictKind int\n\n// The one.\nconst One VerdictKind = 1\n"}))
	if err == nil || !strings.Contains(err.Error(), "declarations of 1 verdicts") {
		t.Errorf("got error %v", err)
	}
}

// TestShortFlagsAreSaid: what the examples use has to be found.
func TestShortFlagsAreSaid(t *testing.T) {
	set := pflag.NewFlagSet("verb", pflag.ContinueOnError)
	set.BoolP("all", "A", false, "All of them.")
	set.String("name", "", "The name.")
	table, err := flagTable(set)
	want := "| flag | default | meaning |\n|---|---|---|\n| `-A`, `--all` | `false` | All of them. |\n| `--name` string |  | The name. |\n"
	if err != nil || table != want {
		t.Errorf("got\n%s\nwant\n%s\n%v", table, want, err)
	}
}

// TestAReasonOnNoPageIsRefused: whoever declares the reason of an event is told to say where it belongs.
func TestAReasonOnNoPageIsRefused(t *testing.T) {
	declared := tree(t, map[string]string{
		"internal/a/a.go":      "package a\n\nconst (\n\treasonLost = \"Lost\"\n\tReasonKnown = \"Known\"\n)\n",
		"internal/a/a_test.go": "package a\n\nconst reasonOfTest = \"OfTest\"\n",
		"test/b/b.go":          "package b\n\nconst reasonElsewhere = \"Elsewhere\"\n",
	})
	err := unlisted(declared, map[string]bool{"Known": true})
	if err == nil || !strings.Contains(err.Error(), "internal/a.reasonLost is on no page") {
		t.Errorf("got error %v", err)
	}
	if err := unlisted(declared, map[string]bool{"Known": true, "Lost": true}); err != nil {
		t.Error(err)
	}
}

// TestRunWritesEveryPageOfThisRepository: and docs/reference holds what is written.
func TestRunWritesEveryPageOfThisRepository(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "docs", "reference")
	if err := run(os.DirFS(filepath.Join("..", "..")), dir); err != nil {
		t.Fatal(err)
	}
	for _, p := range pages() {
		data, err := os.ReadFile(filepath.Join(dir, p.file))
		kept, keptErr := os.ReadFile(filepath.Join("..", "..", "docs", "reference", p.file))
		if keptErr != nil || !bytes.Equal(kept, data) {
			t.Errorf("docs/reference/%s is not what the code says: run make generate (%v)", p.file, keptErr)
		}
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
