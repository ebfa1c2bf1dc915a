// SPDX-License-Identifier: Apache-2.0

package hack

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFlagsOfSuitesExist: a suite that gives its tests a flag that they do not have fails at once, which only a run of all suites would show.
func TestFlagsOfSuitesExist(t *testing.T) {
	text, err := os.ReadFile("test")
	if err != nil {
		t.Fatal(err)
	}
	flags := regexp.MustCompile(` -([a-z-]+) "\$[A-Z_]+"`)
	packages := regexp.MustCompile(` \./(\S+?)/? `)
	checked := 0
	for line := range strings.SplitSeq(strings.ReplaceAll(string(text), "\\\n", " "), "\n") {
		if !strings.HasPrefix(strings.TrimSpace(line), "suite ") {
			continue
		}
		given, of := flags.FindAllStringSubmatch(line, -1), packages.FindStringSubmatch(line)
		if len(given) == 0 || of == nil {
			continue
		}
		dir := filepath.Join("..", of[1])
		if strings.Contains(line, "go test -C test ") {
			dir = filepath.Join("..", "test", of[1])
		}
		for _, flag := range given {
			if flag[1] == "parallel" { // of go test itself
				continue
			}
			if !declaresFlag(t, dir, flag[1]) {
				t.Errorf("hack/test gives the tests of %s the flag -%s, which they do not have", dir, flag[1])
			}
			checked++
		}
	}
	if checked < 8 {
		t.Errorf("only %d flags were found: the table of hack/test is written in another way now", checked)
	}
}

// declaresFlag reports whether a test of a directory declares a flag.
func declaresFlag(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests in %s: %v", dir, err)
	}
	declaration := regexp.MustCompile(`flag\.[A-Za-z0-9]+\((&[a-zA-Z.]+, )?"` + regexp.QuoteMeta(name) + `"`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if declaration.Match(text) {
			return true
		}
	}
	return false
}
