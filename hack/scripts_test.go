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
	for _, script := range []string{"step", "verify-clean", "fuzz", "vulns", "build", "kubernetes", "mutants", "test", "records"} {
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
	commit(t, dir)
	return dir
}

func commit(t *testing.T, dir string) {
	t.Helper()
	run(t, dir, "git", "add", ".")
	run(t, dir, "git", "-c", "user.name=A Tester", "-c", "user.email=tester@example.com", "commit", "-q", "-m", "a commit")
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

// TestSuites: the suites that are asked for run in the order of the table, one that fails stops no other, and an unknown one runs nothing.
func TestSuites(t *testing.T) {
	dir := tree(t)
	put(t, dir, "go", "#!/bin/sh\necho \"$@\" >>called\ncase \"$*\" in 'env CC') echo no-such-compiler;; *./edge/*) exit 1;; esac\n")
	put(t, dir, "make", "#!/bin/sh\necho make \"$@\" >>called\n")
	for _, program := range []string{"go", "make"} {
		if err := os.Chmod(filepath.Join(dir, program), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("MAKE", "make")
	called := func() string {
		raw, _ := os.ReadFile(filepath.Join(dir, "called"))
		_ = os.Remove(filepath.Join(dir, "called"))
		return string(raw)
	}
	t.Setenv("LIMIT", "7m")
	t.Setenv("GO_TEST_FLAGS", "-short")
	out, err := try(dir, "hack/test", "plan", "edge", "race")
	want := strings.Repeat("env CC\n", 4) + "make --no-print-directory build\ntest -C test -timeout 7m -short -count=1 -v -skip ^TestSmoke ./edge/...\n" +
		"make --no-print-directory build\ntest -C test -timeout 7m -short -count=1 -v -skip ^TestSmoke ./plan/...\n"
	if got := called(); err == nil || got != want {
		t.Errorf("%v, called\n%s\nwant\n%s\noutput\n%s", err, got, want, out)
	}
	for _, says := range []string{"cut and healed", " FAILED, 0m", " ok, 0m", "SKIPPED: the race detector needs a C compiler"} {
		if _, results, _ := strings.Cut(out, "==> results:"); !strings.Contains(results, says) {
			t.Errorf("the results do not say %q:\n%s", says, out)
		}
	}
	if out, err := try(dir, "hack/test", "plan", "none"); err == nil || !strings.Contains(out, "there is no suite none") || called() != "" {
		t.Errorf("an unknown suite: %v, %s", err, out)
	}
	all, err := try(dir, "hack/test", "all")
	if err == nil || strings.Contains(all, "TestMeasure") {
		t.Errorf("all of them: %v, %s", err, all)
	}
	everything := called()
	for _, suite := range []string{"./...", "-seeds", "-depth", "-mutants", "-sequences", "./agent/...", "./security/...", "./chaos/", "./install/...", "./cli/...", "./e2e/..."} {
		if !strings.Contains(everything, suite) {
			t.Errorf("all suites do not run %s:\n%s", suite, everything)
		}
	}
}

// TestMutants: each file is played once, for as long as the package stays as it is, and what was found of all of them is shown.
func TestMutants(t *testing.T) {
	dir := tree(t)
	if err := os.MkdirAll(filepath.Join(dir, "internal", "rollout"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.go", "a_test.go", "b.go"} {
		put(t, dir, "internal/rollout/"+name, "package rollout\n")
	}
	commit(t, dir)
	for name, script := range map[string]string{"go": deafGo, "gremlins": fakeGremlins} {
		put(t, dir, name, script)
		if err := os.Chmod(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	called := filepath.Join(dir, "called")
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("CALLED", called)
	for _, step := range []struct {
		what, change, files string
		fails               bool
		says, called        string
	}{
		{"all files", "", "", false, "in all 2 changes are noticed, 0 never end, 0 make no program, and 2 are not noticed:\n" +
			"       LIVED INVERT_LOGICAL at a.go:1:2\n       LIVED INVERT_LOGICAL at b.go:1:2\n", "a.go\nb.go\n"},
		{"nothing is left", "", "", false, "in all 2 changes are noticed", "a.go\nb.go\n"},
		{"a file that is not there", "", "none.go", true, "internal/rollout has no file none.go", "a.go\nb.go\n"},
		{"another package, and one file of it", "a.go", "b.go", false, "in all 1 changes are noticed", "a.go\nb.go\nb.go\n"},
		{"a tool that is cut short", "short.go", "short.go", true, "KILLED", "a.go\nb.go\nb.go\nshort.go\n"},
		{"which is not kept", "", "short.go", true, "KILLED", "a.go\nb.go\nb.go\nshort.go\nshort.go\n"},
	} {
		if step.change != "" {
			put(t, dir, "internal/rollout/"+step.change, "package rollout\n\n// Changed.\n")
			commit(t, dir)
		}
		out, err := try(dir, append([]string{"hack/mutants", "./gremlins", "found", "0"}, strings.Fields(step.files)...)...)
		got, _ := os.ReadFile(called)
		if (err != nil) != step.fails || !strings.Contains(out, step.says) || string(got) != step.called {
			t.Errorf("%s: %v, called %q, output\n%s", step.what, err, got, out)
		}
	}
}

// deafGo builds tests that notice nothing.
const deafGo = `#!/bin/sh
case "$*" in
list*) echo 1.26 ;;
*' -c '*)
	while [ "$1" != -o ]; do shift; done
	printf '#!/bin/sh\nexit 0\n' >"$2"
	chmod +x "$2"
	;;
esac
`

// fakeGremlins makes two changes of the files that a profile names, one of which lives if the tests notice nothing.
const fakeGremlins = `#!/bin/sh
echo "$FILE" >>"$CALLED"
go test -cover -coverprofile "$PWD/profile" ./internal/rollout/... || exit
(cd internal/rollout && go test -timeout 1s -failfast everynode.dev/everynode/internal/rollout) &&
	sed -n 's|.*/\(.*\.go\):.*|       LIVED INVERT_LOGICAL at \1:1:2|p' profile
echo "      KILLED INVERT_LOGICAL at $FILE:3:4"
[ "$FILE" = short.go ] || echo 'Mutation testing completed in 1 second'
`

// TestRecords: a release claims no version of Kubernetes on which its product was not tested.
func TestRecords(t *testing.T) {
	dir := tree(t)
	record := func() {
		head, err := try(dir, "git", "rev-parse", "--short=8", "HEAD")
		if err != nil {
			t.Fatal(err)
		}
		put(t, dir, "hack/minors", "# a comment\nv1.37.1 2026-01-02 test "+head+"v1.36.3 2026-01-02 test-minor "+head)
		commit(t, dir)
	}
	change := func(name string) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		put(t, dir, name, "another text\n")
		commit(t, dir)
	}
	change("internal/a.go")
	record()
	for _, name := range []string{"docs/a.md", "internal/a_test.go", "internal/testdata/a.txt"} {
		change(name)
		run(t, dir, "hack/records")
	}
	for _, name := range []string{"internal/b.go", "charts/everynode/values.yaml", "go.mod"} {
		change(name)
		out, err := try(dir, "hack/records")
		if err == nil || !strings.Contains(out, "v1.37.1: the product has changed since") || !strings.Contains(out, "make test SUITE=minor KUBE_MINOR=1.36, and record it") {
			t.Errorf("after %s: %v, %s", name, err, out)
		}
		if out, err := try(dir, "env", "RECORDS=old", "hack/records"); err != nil || !strings.Contains(out, "v1.36.3: the product has changed since") {
			t.Errorf("after %s, with RECORDS=old: %v, %s", name, err, out)
		}
		record()
		run(t, dir, "hack/records")
	}
	for _, name := range []string{"internal/a.go", "internal/new.go"} { // changed, and not known to git
		put(t, dir, name, "not in the commit\n")
		if out, err := try(dir, "env", "RECORDS=old", "hack/records"); err == nil || !strings.Contains(out, name) || !strings.Contains(out, "which does not have these changes: commit them") {
			t.Errorf("%s is not committed: %v, %s", name, err, out)
		}
		commit(t, dir)
		record()
	}
	put(t, dir, "hack/minors", "v1.37.1 2026-01-02 test 12345678\n")
	commit(t, dir)
	if out, err := try(dir, "hack/records"); err == nil || !strings.Contains(out, "12345678 is not in this clone") {
		t.Errorf("an unknown commit: %v, %s", err, out)
	}
}
