// SPDX-License-Identifier: Apache-2.0

package hack

import (
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"everynode.dev/everynode/internal/cli/command"
	"everynode.dev/everynode/internal/cli/options"
)

// section returns a section of docs/support.md.
func section(t *testing.T, heading string) string {
	t.Helper()
	_, rest, found := strings.Cut(pages(t)["docs/support.md"], "\n## "+heading+"\n")
	if !found {
		t.Fatalf("docs/support.md has no section %q", heading)
	}
	text, _, _ := strings.Cut(rest, "\n## ")
	return text
}

// TestVersionSkewIsTested: each row of the table of versions that may differ names a test. TestNamedTestsExist looks for it.
func TestVersionSkewIsTested(t *testing.T) {
	rows := regexp.MustCompile(`(?m)^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$`).FindAllStringSubmatch(section(t, "Version skew"), -1)
	if len(rows) != 5 {
		t.Fatalf("the table has %d rows, want a heading and 4", len(rows))
	}
	for _, row := range rows[1:] {
		if !strings.Contains(row[3], "`Test") || !strings.HasPrefix(row[2], "one version") {
			t.Errorf("%s: %q, and the tests %q", row[1], row[2], row[3])
		}
	}
}

// TestDeprecatedNames: the page about support lists the names that the code declares as deprecated, with the new ones, and no others.
func TestDeprecatedNames(t *testing.T) {
	declared, values := map[string]string{}, map[string]string{}
	for _, verb := range command.Root(options.New(genericiooptions.NewTestIOStreamsDiscard())).Commands() {
		if to := verb.Annotations["newName"]; to != "" {
			declared[verb.Name()] = to
		}
	}
	files, err := fs.Glob(os.DirFS(".."), "api/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	renamed := map[string]string{}
	for _, name := range files {
		data, err := os.ReadFile("../" + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`(?m)^\s+(\w+) += Domain \+ "(/[a-z-]+)"$`).FindAllStringSubmatch(string(data), -1) {
			values[match[1]] = "everynode.dev" + match[2]
		}
		for _, match := range regexp.MustCompile(`(\w+) is the deprecated name of (\w+)\.`).FindAllStringSubmatch(string(data), -1) {
			renamed[match[1]] = match[2]
		}
	}
	for from, to := range renamed {
		declared[values[from]] = values[to]
	}
	listed := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| [^|]+ \\| `([^`]+)` \\| `([^`]+)` \\|$").FindAllStringSubmatch(section(t, "Deprecation"), -1) {
		listed[row[1]] = row[2]
	}
	if !maps.Equal(declared, listed) || len(declared) < 3 {
		t.Errorf("the code declares the deprecated names %q (%v), and the page lists %q (%v)", slices.Sorted(maps.Keys(declared)), declared, slices.Sorted(maps.Keys(listed)), listed)
	}
}
