// SPDX-License-Identifier: Apache-2.0

package hack

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pages are the pages for people, by their names in the repository.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	root := os.DirFS("..")
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "examples/*/*.md"} {
		names, err := fs.Glob(root, pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			data, err := fs.ReadFile(root, name)
			if err != nil {
				t.Fatal(err)
			}
			found[name] = string(data)
		}
	}
	if len(found) < 5 {
		t.Fatalf("found only the pages %v", found)
	}
	return found
}

// TestLinksLeadSomewhere: what a page links to in this repository exists.
func TestLinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for name, text := range pages(t) {
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			target, _, _ := strings.Cut(match[1], "#")
			if target == "" || strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			if _, err := os.Stat(filepath.Join("..", path.Dir(name), target)); err != nil {
				t.Errorf("%s links to %s: %v", name, match[1], err)
			}
		}
	}
}

// TestNamedTestsExist: a page that names a test, or a script of the core, as the proof of something names one that is there.
func TestNamedTestsExist(t *testing.T) {
	tests := testNames(t)
	test, script := regexp.MustCompile("`(Test[A-Z]\\w+)`"), regexp.MustCompile("`([a-z0-9_]+\\.txt)`")
	count := 0
	for name, text := range pages(t) {
		for _, match := range test.FindAllStringSubmatch(text, -1) {
			if count++; !tests[match[1]] {
				t.Errorf("%s names the test %s, which does not exist", name, match[1])
			}
		}
		for _, match := range script.FindAllStringSubmatch(text, -1) {
			count++
			if _, err := os.Stat(filepath.Join("..", "internal", "rollout", "testdata", match[1])); err != nil {
				t.Errorf("%s names the script %s: %v", name, match[1], err)
			}
		}
	}
	if count == 0 {
		t.Error("no page names a test")
	}
}

// testNames are the tests of all modules.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names, function := map[string]bool{}, regexp.MustCompile(`(?m)^func (Test\w+)\(`)
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
		for _, match := range function.FindAllStringSubmatch(string(data), -1) {
			names[match[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
