// SPDX-License-Identifier: Apache-2.0

package hack

import (
	"errors"
	"os"
	"path/filepath"
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

// fakeGo answers as the go command does, and writes down how it was called.
const fakeGo = `#!/bin/sh
echo "$@" >>DIR/called
case "$1 $2" in
"list -m") echo "v1.36.2 DIR/upstream.mod" ;;
esac
`

// TestKubernetes makes a module for another minor, and builds three programs there.
func TestKubernetes(t *testing.T) {
	dir := tree(t)
	put(t, dir, "go", strings.ReplaceAll(fakeGo, "DIR", dir))
	if err := os.Chmod(filepath.Join(dir, "go"), 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, dir, "upstream.mod", upstreamModule)
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))

	run(t, dir, "hack/kubernetes", "1.36", ".cache/older")
	module, err := os.ReadFile(filepath.Join(dir, ".cache", "older", "module", "go.mod"))
	if err != nil || string(module) != ownModule {
		t.Errorf("%v, the module is\n%s", err, module)
	}
	called := calls(t, dir)
	if len(called) != 2 || called[0] != "list -m -f {{.Version}} {{.GoMod}} k8s.io/kubernetes@v1.36" {
		t.Fatalf("called %q", called)
	}
	for _, want := range []string{
		"build -v -mod=mod ", "version.gitVersion=v1.36.2 ", "version.gitMajor=1 ", "version.gitMinor=36 ", " -o " + filepath.Join(dir, ".cache", "older") + "/ ",
		"k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kube-controller-manager k8s.io/kubernetes/cmd/kube-scheduler",
	} {
		if !strings.Contains(called[1], want) {
			t.Errorf("it is built without %q: %s", want, called[1])
		}
	}

	// The patch stays what it was.
	run(t, dir, "hack/kubernetes", "1.36", ".cache/older")
	if again := calls(t, dir); len(again) != 1 || again[0] != called[1] {
		t.Errorf("called %q", again)
	}
}

// TestKubernetesPreRelease: the name of a pre-release is asked for as it is.
func TestKubernetesPreRelease(t *testing.T) {
	dir := tree(t)
	put(t, dir, "go", strings.ReplaceAll(strings.ReplaceAll(fakeGo, "DIR", dir), "v1.36.2", "v1.38.0-beta.0"))
	if err := os.Chmod(filepath.Join(dir, "go"), 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, dir, "upstream.mod", upstreamModule)
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	run(t, dir, "hack/kubernetes", "1.38.0-beta.0", ".cache/next")
	module, err := os.ReadFile(filepath.Join(dir, ".cache", "next", "module", "go.mod"))
	if err != nil || string(module) != strings.NewReplacer("v1.36.2", "v1.38.0-beta.0", "v0.36.2", "v0.38.0-beta.0").Replace(ownModule) {
		t.Errorf("%v, the module is\n%s", err, module)
	}
	called := calls(t, dir)
	if len(called) != 2 || !strings.HasSuffix(called[0], " k8s.io/kubernetes@v1.38.0-beta.0") || !strings.Contains(called[1], "version.gitVersion=v1.38.0-beta.0 ") || !strings.Contains(called[1], "version.gitMinor=38 ") {
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
	put(t, dir, "go", strings.ReplaceAll(fakeGo, "DIR", dir))
	if err := os.Chmod(filepath.Join(dir, "go"), 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, dir, "upstream.mod", "module k8s.io/kubernetes\n\ngo 1.25.0\n")
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
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
