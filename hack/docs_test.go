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

// TestLinksLeadSomewhere: what a page links to in this repository exists, down to the heading.
func TestLinksLeadSomewhere(t *testing.T) {
	link, all := regexp.MustCompile(`\]\(([^)\s]+)\)`), pages(t)
	for name, text := range all {
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			target, heading, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			to := name
			if target != "" {
				to = path.Join(path.Dir(name), target)
			}
			if _, err := os.Stat(filepath.Join("..", to)); err != nil {
				t.Errorf("%s links to %s: %v", name, match[1], err)
			} else if page, ok := all[to]; heading != "" && ok && !anchors(page)[heading] {
				t.Errorf("%s links to %s, and that page has no such heading", name, match[1])
			}
		}
	}
}

// TestEveryPageIsListed: who begins at docs/README.md finds every page, those of runbooks by way of their own list.
func TestEveryPageIsListed(t *testing.T) {
	all := pages(t)
	for name := range all {
		index := "docs/README.md"
		if path.Dir(name) == "docs/runbooks" {
			index = "docs/runbooks/README.md"
		}
		relative, below := strings.CutPrefix(name, path.Dir(index)+"/")
		if below && name != index && !strings.Contains(all[index], "]("+relative) {
			t.Errorf("%s does not link to %s", index, relative)
		}
	}
}

// anchors are the headings of a page as GitHub and others write them in links.
func anchors(page string) map[string]bool {
	found, heading := map[string]bool{}, regexp.MustCompile(`(?m)^#+ (.+)$`)
	silent := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for _, match := range heading.FindAllStringSubmatch(page, -1) {
		found[strings.ReplaceAll(silent.ReplaceAllString(strings.ToLower(match[1]), ""), " ", "-")] = true
	}
	return found
}

// TestDialectsShowSamples: a manifest that the page of a dialect shows is the sample that it has named last, which other tests apply.
func TestDialectsShowSamples(t *testing.T) {
	parts := regexp.MustCompile("(?s)\\((\\.\\./samples/[a-z/-]+\\.yaml)\\)|```yaml\n(.*?)```")
	for name, text := range pages(t) {
		if path.Dir(name) != "docs/dialects" {
			continue
		}
		sample, shown := "", 0
		for _, match := range parts.FindAllStringSubmatch(text, -1) {
			if match[1] != "" {
				sample = path.Join(path.Dir(name), match[1])
				continue
			}
			data, err := os.ReadFile(filepath.Join("..", sample))
			if shown++; err != nil || manifest(string(data)) != manifest(match[2]) {
				t.Errorf("%s shows another manifest than %s (%v)", name, sample, err)
			}
		}
		if shown == 0 {
			t.Errorf("%s shows no manifest", name)
		}
	}
}

// manifest is a file without the comment at its head and empty lines at its end.
func manifest(text string) string {
	for strings.HasPrefix(text, "#") {
		_, text, _ = strings.Cut(text, "\n")
	}
	return strings.TrimSpace(text)
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

// TestSectionsAreFilled: what a run writes into a page, between <!-- NAME: begin --> and <!-- NAME: end -->, has been written.
func TestSectionsAreFilled(t *testing.T) {
	count := 0
	for name, text := range pages(t) {
		count += strings.Count(text, ": begin -->")
		for _, complaint := range unfilled(text) {
			t.Errorf("%s: %s", name, complaint)
		}
	}
	if count == 0 {
		t.Error("no page has such a section")
	}
	for _, c := range []struct{ page, want string }{
		{"<!-- a: begin -->\nx\n<!-- a: end -->\n<!-- b: begin -->\n| a |\n|--:|\n| 1 |\n<!-- b: end -->\n", ""},
		{"<!-- a: begin -->\n<!-- a: end -->\n", "the section a is empty"},
		{"<!-- a: begin -->\n\n<!-- a: end -->\n", "the section a is empty"},
		{"<!-- a: begin -->\n| a | b |\n|---|--:|\n<!-- a: end -->\n", "a table of the section a has no row"},
		{"<!-- a: begin -->\n| a |\n|---|\n\n| b |\n|---|\n| 1 |\n<!-- a: end -->\n", "a table of the section a has no row"},
		{"<!-- a: begin -->\nx\n", "the section a does not end"},
		{"<!-- a: end -->\n", "the section a ends, and has not begun"},
		{"<!-- a: begin -->\nx\n<!-- b: begin -->\nx\n<!-- b: end -->\n", "the section a does not end"},
	} {
		if got := strings.Join(unfilled(c.page), "; "); got != c.want {
			t.Errorf("%q: %q, want %q", c.page, got, c.want)
		}
	}
}

// unfilled says which sections of a page hold nothing, or do not end.
func unfilled(page string) (complaints []string) {
	mark, rowless := regexp.MustCompile(`<!-- ([^ ]+): (begin|end) -->\n`), regexp.MustCompile(`(?m)^\|[|: -]*--[|: -]*\|\n(\n|\z)`)
	open, from := "", 0
	for _, at := range mark.FindAllStringSubmatchIndex(page, -1) {
		name, begins := page[at[2]:at[3]], page[at[4]:at[5]] == "begin"
		switch content := page[from:at[0]]; {
		case begins && open != "":
			complaints = append(complaints, "the section "+open+" does not end")
		case begins:
		case open != name:
			complaints = append(complaints, "the section "+name+" ends, and has not begun")
		case strings.TrimSpace(content) == "":
			complaints = append(complaints, "the section "+name+" is empty")
		case rowless.MatchString(content):
			complaints = append(complaints, "a table of the section "+name+" has no row")
		}
		if open, from = "", at[1]; begins {
			open = name
		}
	}
	if open != "" {
		complaints = append(complaints, "the section "+open+" does not end")
	}
	return complaints
}

// testNames are the tests of all modules.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names, function := map[string]bool{}, regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	eachTestFile(t, func(_, text string) {
		for _, match := range function.FindAllStringSubmatch(text, -1) {
			names[match[1]] = true
		}
	})
	return names
}

// TestTheReadmeSaysHowToLook: the first screen of the README says how one opens the dashboard.
func TestTheReadmeSaysHowToLook(t *testing.T) {
	data, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(data), "\n")
	first := strings.Join(lines[:min(len(lines), 32)], "\n")
	for _, want := range []string{"`kubectl everynode dashboard`", "`make up` keeps a cluster and prints the URL of its dashboard"} {
		if !strings.Contains(first, want) {
			t.Errorf("the first screen of the README does not have %s", want)
		}
	}
}
