// SPDX-License-Identifier: Apache-2.0

package hack

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"everynode.dev/everynode/internal/cli/command"
	"everynode.dev/everynode/internal/cli/options"
)

// TestTargetsDoWhatIsPromised: what people rely on `make verify` and `make release` for is among what they do, and the list of `make help` stays short.
func TestTargetsDoWhatIsPromised(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string][]string{
		"verify":  {"verify-rules", "verify-generate", "lint", "verify-licences", "test-race"},
		"release": {"images", "sbom", "vulns"},
	} {
		match := regexp.MustCompile(`(?m)^` + target + `: ([a-z0-9 -]+?) *(##.*)?$`).FindSubmatch(makefile)
		if match == nil {
			t.Errorf("the Makefile has no target %s", target)
			continue
		}
		does := strings.Fields(string(match[1]))
		for _, step := range want {
			if !slices.Contains(does, step) {
				t.Errorf("make %s does not do %s, but %q", target, step, does)
			}
		}
	}
	if count := len(regexp.MustCompile(`(?m)^[a-z0-9-]+:.*## `).FindAll(makefile, -1)); count == 0 || count > 25 {
		t.Errorf("make help lists %d targets, and may list 25: a suite belongs into the table of hack/test", count)
	}
}

// TestFuzzTestsHaveCorpora: each is one that `make fuzz` finds, and has inputs beside it that `go test` plays.
func TestFuzzTestsHaveCorpora(t *testing.T) {
	root, function := os.DirFS(".."), regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)
	count := 0
	eachTestFile(t, func(name, text string) {
		for _, match := range function.FindAllStringSubmatch(text, -1) {
			count++
			if !strings.HasPrefix(name, "internal/") {
				t.Errorf("%s holds %s, and hack/fuzz looks below internal alone", name, match[1])
			}
			dir := path.Join(path.Dir(name), "testdata", "fuzz", match[1])
			if inputs, err := fs.ReadDir(root, dir); err != nil || len(inputs) == 0 {
				t.Errorf("%s of %s has no input in %s: %v", match[1], name, dir, err)
			}
		}
	})
	if count == 0 {
		t.Error("there is no fuzz test")
	}
}

// TestChangelogNamesEveryVerb: who reads what is new finds every verb of the plugin, in one of the paragraphs on it.
func TestChangelogNamesEveryVerb(t *testing.T) {
	raw, err := os.ReadFile("../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	var told strings.Builder
	for _, paragraph := range strings.Split(string(raw), "\n- ") {
		if strings.HasPrefix(paragraph, "`"+options.Program) {
			told.WriteString(paragraph + "\n")
		}
	}
	for _, verb := range command.Verbs() {
		if !regexp.MustCompile(`(^|[^\w-])` + regexp.QuoteMeta(verb.Name()) + `($|[^\w-])`).MatchString(told.String()) {
			t.Errorf("CHANGELOG.md does not name the verb %s: it is %s", verb.CommandPath(), verb.Short)
		}
	}
}

// eachTestFile reads the tests of all modules.
func eachTestFile(t *testing.T, do func(name, text string)) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(".."), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		data, err := os.ReadFile(filepath.Join("..", name))
		if err == nil {
			do(name, string(data))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
