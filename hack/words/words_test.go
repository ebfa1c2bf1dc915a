// SPDX-License-Identifier: Apache-2.0

// Package words checks that the texts of this repository use plain words: pages, comments and strings of the product, manifests, the chart, and the Makefile.
//
//	words.txt    the words to avoid, and what to write instead
//	allowed.txt  the texts in which such a word is right, each with the reason
//	pending.txt  how many findings each directory (a page by itself) still has
//
// The rule: a directory has exactly as many findings as pending.txt lists, so the number changes in the same commit as the text.
package words

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	update = flag.Bool("update", false, "write pending.txt")
	show   = flag.String("show", "", "with -v, log all findings below this directory, or of this page")
)

// entry is a line of words.txt, or of allowed.txt with its place: a file, a directory, or everywhere.
type entry struct {
	place, text, note string
	pattern           *regexp.Regexp
	used              bool
}

// check is the word list with its exceptions.
type check struct{ words, allowed []*entry }

func newCheck(words, allowed string) (*check, error) {
	c := &check{}
	spaces := func(text string) string { return strings.ReplaceAll(text, " ", `\s+`) }
	for _, row := range table(words) {
		if len(row) != 2 {
			return nil, fmt.Errorf("words.txt: %q is not PATTERN | INSTEAD", row)
		}
		c.words = append(c.words, &entry{note: row[1], pattern: regexp.MustCompile(`(?i)\b(` + spaces(row[0]) + `)\b`)})
	}
	for _, row := range table(allowed) {
		if len(row) != 3 || row[2] == "" {
			return nil, fmt.Errorf("allowed.txt: %q is not FILE | TEXT | WHY", row)
		}
		c.allowed = append(c.allowed, &entry{place: row[0], text: row[1], pattern: regexp.MustCompile(spaces(regexp.QuoteMeta(row[1])))})
	}
	return c, nil
}

// table reads lines of columns between " | ", without comments and empty lines.
func table(text string) [][]string {
	var rows [][]string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			rows = append(rows, strings.Split(line, " | "))
		}
	}
	return rows
}

// findings searches all files. The keys are the directories, and the pages and files of the top directory by themselves.
func (c *check) findings(root fs.FS) (map[string][]string, error) {
	found := map[string][]string{}
	return found, fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name == "bin" || name == "charts/everynode/config" || name != "." && strings.HasPrefix(entry.Name(), ".") {
				return fs.SkipDir // built, copied from config, or not part of the repository
			}
			return nil
		}
		prose := reader(name)
		if prose == nil {
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err == nil {
			text, err = prose(text)
		}
		place := path.Dir(name)
		if place == "." || path.Ext(name) == ".md" {
			place = name
		}
		if here := c.in(name, text); len(here) > 0 {
			found[place] = append(found[place], here...)
		}
		return err
	})
}

func (c *check) in(name string, text []byte) []string {
	for _, e := range c.allowed {
		if e.place == "*" || e.place == name || strings.HasSuffix(e.place, "/") && strings.HasPrefix(name, e.place) {
			text = e.pattern.ReplaceAllFunc(text, func(match []byte) []byte { e.used = true; return blank(match) })
		}
	}
	var found []string
	for _, w := range c.words {
		for _, at := range w.pattern.FindAllIndex(text, -1) {
			line, word := 1+bytes.Count(text[:at[0]], []byte("\n")), strings.Join(strings.Fields(string(text[at[0]:at[1]])), " ")
			found = append(found, fmt.Sprintf("%s:%d: %q: write: %s", name, line, word, w.note))
		}
	}
	return found
}

// unused are the exceptions that no text needs.
func (c *check) unused() []*entry {
	return slices.DeleteFunc(slices.Clone(c.allowed), func(e *entry) bool { return e.used })
}

// reader returns what blanks everything but prose in a file, or nil for a file that is not checked. Positions stay the same.
func reader(name string) func([]byte) ([]byte, error) {
	below := func(dirs string) bool { return slices.Contains(strings.Fields(dirs), strings.Split(name, "/")[0]) }
	switch path.Ext(name) {
	case ".md":
		if below("docs") || path.Dir(name) == "." {
			return func(raw []byte) ([]byte, error) { return code.ReplaceAllFunc(raw, blank), nil }
		}
	case ".go":
		generated, test := strings.Contains(name, "/zz_generated"), strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "internal/sim/")
		if below("cmd api config internal localplane") && !generated && !test {
			return goProse
		}
	case ".yaml", ".tpl", ".txt", ".json", "":
		if below("charts config Makefile") {
			return func(raw []byte) ([]byte, error) { return raw, nil }
		}
	}
	return nil
}

var code = regexp.MustCompile("(?ms)^ *```.*?^ *```$|^(    |\t)[^\n]*$|<!--.*?-->|`[^`]*`|\\]\\([^)]*\\)")

// goProse keeps comments and string literals, without import paths and struct tags.
func goProse(raw []byte) ([]byte, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", raw, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	text := blank(raw)
	marks := strings.NewReplacer("//", "  ", `\n`, "  ", `\t`, "  ") // of the same length
	keep := func(node ast.Node) {
		begin, end := files.Position(node.Pos()).Offset, files.Position(node.End()).Offset
		copy(text[begin:end], marks.Replace(string(raw[begin:end])))
	}
	for _, group := range file.Comments {
		for _, comment := range group.List {
			keep(comment)
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			node.Tag = nil
		case *ast.BasicLit:
			if node.Kind == token.STRING {
				keep(node)
			}
		}
		return true
	})
	return text, nil
}

// blank keeps the length of a text and its white space.
func blank(text []byte) []byte {
	blanked := make([]byte, len(text))
	for i, b := range text {
		if strings.IndexByte(" \t\n", b) >= 0 {
			blanked[i] = b
		}
	}
	return blanked
}

// differences compares the findings with pending.txt.
func differences(found map[string][]string, pending string) []string {
	listed, list := map[string]int{}, []string{}
	for place := range found {
		listed[place] = 0
	}
	for _, row := range table(pending) {
		place, count, _ := strings.Cut(row[0], " ")
		listed[place], _ = strconv.Atoi(count)
	}
	for _, place := range slices.Sorted(maps.Keys(listed)) {
		switch now := len(found[place]); {
		case now > listed[place]:
			list = append(list, fmt.Sprintf("%s has %d findings, and may have %d:\n%s", place, now, listed[place], strings.Join(found[place], "\n")))
		case now < listed[place]:
			list = append(list, fmt.Sprintf("%s has only %d of %d findings: lower the number in pending.txt with: go test ./hack/words -update", place, now, listed[place]))
		}
	}
	return list
}

func TestWordsArePlain(t *testing.T) {
	lists := map[string]string{}
	for _, name := range []string{"words.txt", "allowed.txt", "pending.txt"} {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		lists[name] = string(raw)
	}
	c, err := newCheck(lists["words.txt"], lists["allowed.txt"])
	if err != nil {
		t.Fatal(err)
	}
	found, err := c.findings(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range c.unused() {
		t.Errorf("no text needs the entry %s | %s of allowed.txt: remove it", e.place, e.text)
	}
	counts := "# Findings that a directory (a page by itself) still has. Lower a number in the commit that removes findings; do not raise one.\n"
	for _, place := range slices.Sorted(maps.Keys(found)) {
		counts += fmt.Sprintf("%s %d\n", place, len(found[place]))
		if *show != "" && strings.HasPrefix(place+"/", *show+"/") {
			t.Logf("%s\n%s", place, strings.Join(found[place], "\n"))
		}
	}
	if *update {
		if err := os.WriteFile("pending.txt", []byte(counts), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if list := differences(found, lists["pending.txt"]); len(list) > 0 {
		t.Error(strings.Join(list, "\n"))
	}
}
