// SPDX-License-Identifier: Apache-2.0

// Package hack tests the scripts of the Makefile, and that the pages for people name things that exist.
package hack

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// tree is a git repository with the scripts and one file.
func tree(t *testing.T) string {
	t.Helper()
	for _, program := range []string{"git", "bash"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("SKIPPED: %v: install it", err)
		}
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "hack"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, script := range []string{"step", "verify-clean"} {
		raw, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "hack", script), raw, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	put(t, dir, ".gitignore", "/.cache/\n")
	put(t, dir, "file", "one\n")
	run(t, dir, "git", "init", "-q")
	run(t, dir, "git", "add", ".")
	run(t, dir, "git", "-c", "user.name=A Tester", "-c", "user.email=tester@example.com", "commit", "-q", "-m", "first")
	return dir
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, dir string, words ...string) {
	t.Helper()
	if out, err := try(dir, words...); err != nil {
		t.Fatalf("%s: %v\n%s", words, err, out)
	}
}

func try(dir string, words ...string) (string, error) {
	command := exec.Command(words[0], words[1:]...)
	command.Dir = dir
	out, err := command.CombinedOutput()
	return string(out), err
}

func TestVerifyClean(t *testing.T) {
	for name, test := range map[string]struct {
		before, after string // the file that is written before and after the checks begin
		fails         bool
		says          string
	}{
		"nothing changes":                  {says: "clean tree: ok"},
		"a file is changed":                {after: "file", fails: true, says: " M file"},
		"a file is left behind":            {after: "left", fails: true, says: "?? left"},
		"there were changes, and no more":  {before: "mine", says: "clean tree: SKIPPED: the working tree had changes"},
		"there were changes, and one more": {before: "mine", after: "left", says: "clean tree: SKIPPED: the working tree had changes"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tree(t)
			if test.before != "" {
				put(t, dir, test.before, "two\n")
			}
			run(t, dir, "hack/verify-clean", "-b")
			if test.after != "" {
				put(t, dir, test.after, "two\n")
			}
			out, err := try(dir, "hack/verify-clean")
			if (err != nil) != test.fails || !strings.Contains(out, test.says) {
				t.Errorf("error %v, output\n%s", err, out)
			}
		})
	}
}
