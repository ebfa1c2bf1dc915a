// SPDX-License-Identifier: Apache-2.0

package localplane

import (
	"io/fs"
	"os"
	"path"
	"slices"
	"testing"

	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/localplane/internal/install"
)

// TestShippedIsAllOfConfig: a directory below config/ that a plane does not apply is one that somebody has forgotten.
func TestShippedIsAllOfConfig(t *testing.T) {
	var got []string
	for _, from := range Shipped() {
		entries, err := fs.ReadDir(from, ".")
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			got = append(got, entry.Name())
		}
	}
	found, err := os.ReadDir(path.Join("..", "config"))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, entry := range found {
		if entry.IsDir() && entry.Name() != "manager" { // a process on a plane
			want = append(want, entry.Name())
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("a plane applies %q, and config/ has %q", got, want)
	}
}

// TestThePlaneHasTheRoleOfTheHint: the plugin tells people who may not see nodes to ask for that role.
func TestThePlaneHasTheRoleOfTheHint(t *testing.T) {
	for _, from := range Shipped() {
		objects, err := install.Read(from)
		if err != nil {
			t.Fatal(err)
		}
		for _, obj := range objects {
			if obj.GetKind() == "ClusterRole" && obj.GetName() == options.Viewer {
				return
			}
		}
	}
	t.Errorf("a plane has no ClusterRole %s", options.Viewer)
}
