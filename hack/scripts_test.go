// SPDX-License-Identifier: Apache-2.0

// Package hack tests the scripts of the Makefile, and that the pages for people name things that exist.
package hack

import (
	"errors"
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
	for _, script := range []string{"step", "verify-clean", "fuzz", "vulns"} {
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

// TestVulns: what is found fails, what cannot be asked is skipped and says so, and any other failure is one.
func TestVulns(t *testing.T) {
	dir := tree(t)
	for name, c := range map[string]struct {
		script string
		fails  bool
		says   string
	}{
		"nothing":    {"echo No vulnerabilities found.", false, "No vulnerabilities found."},
		"found":      {"echo Vulnerability 1; exit 3", true, "Vulnerability 1"},
		"no network": {"echo govulncheck: fetching vulnerabilities: no such host >&2; exit 1", false, "vulnerabilities: SKIPPED: govulncheck: fetching vulnerabilities: no such host. Remedy: run it where"},
		"broken":     {"echo no such package >&2; exit 1", true, "no such package"},
	} {
		put(t, dir, "govulncheck", "#!/bin/sh\n"+c.script+"\n")
		if err := os.Chmod(filepath.Join(dir, "govulncheck"), 0o700); err != nil {
			t.Fatal(err)
		}
		if out, err := try(dir, "hack/vulns", "./govulncheck", "./..."); (err != nil) != c.fails || !strings.Contains(out, c.says) {
			t.Errorf("%s: %v, %s", name, err, out)
		}
	}
	if out, err := try(dir, "hack/vulns", "./none"); err != nil || !strings.Contains(out, "SKIPPED: there is no ./none") {
		t.Errorf("without the program: %v, %s", err, out)
	}
}

// TestFuzz runs the fuzz tests that the pattern names, and fails at the end when one has found something.
func TestFuzz(t *testing.T) {
	dir := tree(t)
	put(t, dir, "go", "#!/bin/sh\necho \"$@\" >>called\ncase \"$@\" in *FuzzBad*) exit 1;; esac\n")
	if err := errors.Join(os.Chmod(filepath.Join(dir, "go"), 0o700), os.MkdirAll(filepath.Join(dir, "internal", "a"), 0o700)); err != nil {
		t.Fatal(err)
	}
	put(t, dir, "internal/a/a_test.go", "package a\n\nfunc FuzzBad(f *testing.F) {\n}\n\nfunc FuzzGood(f *testing.F) {\n}\n\nfunc TestFuzzy(t *testing.T) {}\n")
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := try(dir, "hack/fuzz", "7s")
	called, _ := os.ReadFile(filepath.Join(dir, "called"))
	want := "test -run ^$ -fuzz ^FuzzBad$ -fuzztime 7s ./internal/a\ntest -run ^$ -fuzz ^FuzzGood$ -fuzztime 7s ./internal/a\n"
	if err == nil || !strings.Contains(out, "found something: ./internal/a FuzzBad") || string(called) != want {
		t.Errorf("%v, %s\ncalled\n%s", err, out, called)
	}
	if out, err := try(dir, "hack/fuzz", "7s", "Good"); err != nil {
		t.Errorf("the good one: %v, %s", err, out)
	}
}
