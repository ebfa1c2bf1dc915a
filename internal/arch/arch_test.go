// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// rootDir is the root of the repository, seen from this package.
var rootDir = filepath.Join("..", "..")

func TestRepositoryKeepsItsRules(t *testing.T) {
	tree, err := Load(os.DirFS(rootDir))
	if err != nil {
		t.Fatal(err)
	}
	for _, violation := range Check(tree, Everynode()) {
		t.Error(violation)
	}
}

// A list of direct imports says nothing about what those drag in; go list does.
func TestDependenciesKeepTheirTier(t *testing.T) {
	tree, err := Load(os.DirFS(rootDir))
	if err != nil {
		t.Fatal(err)
	}
	for _, z := range Everynode().Zones {
		patterns := []string{}
		for _, p := range tree.Packages {
			if slices.ContainsFunc(z.Packages, func(pattern string) bool { return matches(pattern, p.Dir) }) {
				patterns = append(patterns, "./"+p.Dir)
			}
		}
		if len(z.Deep) == 0 || len(patterns) == 0 {
			continue
		}
		for _, violation := range CheckDeps(z, goList(t, patterns)) {
			t.Error(violation)
		}
	}
}

func goList(t *testing.T, patterns []string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps"}, patterns...)...)
	cmd.Dir = rootDir
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	return strings.Fields(string(out))
}
