// SPDX-License-Identifier: Apache-2.0

package hack

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// upstreamModule is in short what k8s.io/kubernetes requires.
const upstreamModule = `module k8s.io/kubernetes

go 1.25.0

godebug default=go1.24

godebug (
	asynctimerchan=1
)

require (
	github.com/spf13/cobra v1.10.2
	k8s.io/api v0.0.0
	k8s.io/apiserver v0.0.0
	k8s.io/klog/v2 v2.140.0
)

require k8s.io/kube-openapi v0.0.0-20260721132016-d427ff9ee9ad // indirect

require (
	k8s.io/metrics v0.0.0 // indirect
)
`

const ownModule = `module everynode.dev/everynode/kubernetes

go 1.25.0
godebug default=go1.24
godebug (
	asynctimerchan=1
)

require k8s.io/kubernetes v1.36.2

replace k8s.io/api => k8s.io/api v0.36.2
replace k8s.io/apiserver => k8s.io/apiserver v0.36.2
replace k8s.io/metrics => k8s.io/metrics v0.36.2
`

// fakeGo answers as the go command does, and writes down how it was called, and with which Go if not with the installed one. $GO_FAILS is what it cannot do.
const fakeGo = `#!/bin/sh
echo "$@" ${GOTOOLCHAIN:+with $GOTOOLCHAIN} >>DIR/called
case "$1 $2" in
"list -m") echo "v1.36.2 DIR/upstream.mod" ;;
"list -mod=mod")
	[ "$GO_FAILS" != modules ] || {
		for package in a b; do
			echo "/mod/$package.go:3:2: example.com/lost@v1.0.0: reading https://proxy.example/lost/@v/v1.0.0.zip: 403 Forbidden" >&2
		done
		exit 1
	} ;;
"env GOVERSION") echo go1.26.8 ;;
"version ")
	[ "$GO_FAILS" != toolchain ] || {
		echo "go: download $GOTOOLCHAIN: toolchain not available" >&2
		exit 1
	} ;;
esac
`

// goCommand puts the fake go command, whose newest Kubernetes is that version, into a tree and first into $PATH.
func goCommand(t *testing.T, dir, version string) {
	t.Helper()
	put(t, dir, "go", strings.NewReplacer("DIR", dir, "v1.36.2", version).Replace(fakeGo))
	if err := os.Chmod(filepath.Join(dir, "go"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("GOTOOLCHAIN", "")
}

// TestKubernetes makes a module for another minor, and builds three programs there.
func TestKubernetes(t *testing.T) {
	dir := tree(t)
	goCommand(t, dir, "v1.36.2")
	put(t, dir, "upstream.mod", upstreamModule)

	run(t, dir, "hack/kubernetes", "1.36", ".cache/older")
	module, err := os.ReadFile(filepath.Join(dir, ".cache", "older", "module", "go.mod"))
	if err != nil || string(module) != ownModule {
		t.Errorf("%v, the module is\n%s", err, module)
	}
	called := calls(t, dir)
	if len(called) != 4 || called[0] != "list -m -f {{.Version}} {{.GoMod}} k8s.io/kubernetes@v1.36" {
		t.Fatalf("called %q", called)
	}
	for _, want := range []string{
		"build -v -mod=mod ", "version.gitVersion=v1.36.2 ", "version.gitMajor=1 ", "version.gitMinor=36 ", " -o " + filepath.Join(dir, ".cache", "older") + "/ ",
		"k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kube-controller-manager k8s.io/kubernetes/cmd/kube-scheduler",
	} {
		if !strings.Contains(called[3], want) {
			t.Errorf("it is built without %q: %s", want, called[3])
		}
	}

	// The patch stays what it was.
	run(t, dir, "hack/kubernetes", "1.36", ".cache/older")
	if again := calls(t, dir); !slices.Equal(again, called[1:]) {
		t.Errorf("called %q", again)
	}

	// Other programs.
	run(t, dir, "hack/kubernetes", "1.36", ".cache/older", "kubectl")
	if other := calls(t, dir); !strings.HasSuffix(other[2], " -o "+filepath.Join(dir, ".cache", "older")+"/ k8s.io/kubernetes/cmd/kubectl") {
		t.Errorf("called %q", other)
	}
}

// TestKubernetesNewerGo: where that version of Kubernetes requires a newer Go than the installed one, all is done with that Go, or the one that the caller has chosen; and
// the message says so, and what to do if it cannot be had.
func TestKubernetesNewerGo(t *testing.T) {
	for name, c := range map[string]struct {
		required, chosen string // Go
		with             string // what the go command is called with
		says             bool
	}{
		"older":               {required: "1.25.0"},
		"the installed one":   {required: "1.26.8"},
		"a newer patch":       {required: "1.26.10", with: " with go1.26.10", says: true},
		"a newer minor":       {required: "1.27.0", with: " with go1.27.0", says: true},
		"local":               {required: "1.27.0", chosen: "local", with: " with go1.27.0", says: true},
		"chosen":              {required: "1.27.0", chosen: "go1.27.3", with: " with go1.27.3", says: true},
		"chosen, not needed":  {required: "1.25.0", chosen: "go1.27.3", with: " with go1.27.3"},
		"local is new enough": {required: "1.25.0", chosen: "local", with: " with local"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tree(t)
			goCommand(t, dir, "v1.38.0-beta.0")
			t.Setenv("GOTOOLCHAIN", c.chosen)
			put(t, dir, "upstream.mod", strings.Replace(upstreamModule, "go 1.25.0", "go "+c.required, 1))
			out, err := try(dir, "hack/kubernetes", "1.38.0-beta.0", ".cache/next")
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			called := calls(t, dir)
			if last := called[len(called)-1]; !strings.HasPrefix(last, "build ") || !strings.HasSuffix(last, "/cmd/kube-scheduler"+c.with) {
				t.Errorf("built with %q", last)
			}
			if strings.Contains(out, "Kubernetes v1.38.0-beta.0 requires Go "+c.required+", and Go 1.26.8 is installed") != c.says {
				t.Errorf("it says\n%s", out)
			}
		})
	}
	dir := tree(t)
	goCommand(t, dir, "v1.38.0-beta.0")
	put(t, dir, "upstream.mod", strings.Replace(upstreamModule, "go 1.25.0", "go 1.27.0", 1))
	for fails, want := range map[string]string{
		"toolchain": "go: download go1.27.0: toolchain not available\nKubernetes v1.38.0-beta.0 requires Go 1.27.0, and the go command cannot download it: install Go 1.27.0 or newer",
		"modules": "Kubernetes v1.38.0-beta.0 cannot be built here, because these modules that it requires cannot be downloaded:\n" +
			"    example.com/lost@v1.0.0\nhttps://proxy.example/lost/@v/v1.0.0.zip: 403 Forbidden\n",
	} {
		t.Setenv("GO_FAILS", fails)
		out, err := try(dir, "hack/kubernetes", "1.38.0-beta.0", ".cache/next")
		if err == nil || !strings.Contains(out, want) || slices.ContainsFunc(calls(t, dir), func(call string) bool { return strings.HasPrefix(call, "build ") }) {
			t.Errorf("without %s: %v, it says\n%s", fails, err, out)
		}
	}
}

// TestKubernetesPreRelease: the name of a pre-release is asked for as it is.
func TestKubernetesPreRelease(t *testing.T) {
	dir := tree(t)
	goCommand(t, dir, "v1.38.0-beta.0")
	put(t, dir, "upstream.mod", upstreamModule)
	run(t, dir, "hack/kubernetes", "1.38.0-beta.0", ".cache/next")
	module, err := os.ReadFile(filepath.Join(dir, ".cache", "next", "module", "go.mod"))
	if err != nil || string(module) != strings.NewReplacer("v1.36.2", "v1.38.0-beta.0", "v0.36.2", "v0.38.0-beta.0").Replace(ownModule) {
		t.Errorf("%v, the module is\n%s", err, module)
	}
	called := calls(t, dir)
	if len(called) != 4 || !strings.HasSuffix(called[0], " k8s.io/kubernetes@v1.38.0-beta.0") || !strings.Contains(called[3], "version.gitVersion=v1.38.0-beta.0 ") || !strings.Contains(called[3], "version.gitMinor=38 ") {
		t.Errorf("called %q", called)
	}
}

// TestKubernetesRefuses: what is no minor is refused, and so is a module that was not understood.
func TestKubernetesRefuses(t *testing.T) {
	dir := tree(t)
	for _, minor := range []string{"", "36", "v1.36", "1.36.x", "1.36; true", "1.38-beta.0", "1.38.0-beta", "1.38.0-next.1"} {
		if out, err := try(dir, "hack/kubernetes", minor, ".cache/older"); err == nil || !strings.Contains(out, "KUBE_MINOR is '"+minor+"'") {
			t.Errorf("%q: %v, %s", minor, err, out)
		}
	}
	goCommand(t, dir, "v1.36.2")
	put(t, dir, "upstream.mod", "module k8s.io/kubernetes\n\ngo 1.25.0\n")
	for range 2 {
		if out, err := try(dir, "hack/kubernetes", "1.36.2", ".cache/older"); err == nil || !strings.Contains(out, "no staging modules") {
			t.Errorf("%v, %s", err, out)
		}
	}
}

// calls are how the go command was called since the last time.
func calls(t *testing.T, dir string) []string {
	t.Helper()
	file := filepath.Join(dir, "called")
	data, err := os.ReadFile(file)
	if err := errors.Join(err, os.Remove(file)); err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}
