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

// TestShippedIsAllOfConfig: a file below config/ that a plane does not apply was forgotten.
func TestShippedIsAllOfConfig(t *testing.T) {
	files := func(of fs.FS) (names []string) {
		t.Helper()
		err := fs.WalkDir(of, ".", func(name string, entry fs.DirEntry, err error) error {
			// The manager is a process on a plane, and so is the dashboard.
			if err == nil && path.Ext(name) == ".yaml" && path.Dir(name) != "manager" && path.Dir(name) != "dashboard" {
				names = append(names, name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	var got []string
	for _, from := range Shipped() {
		got = append(got, files(from)...)
	}
	want := files(os.DirFS(path.Join("..", "config")))
	slices.Sort(got)
	if slices.Sort(want); !slices.Equal(got, want) {
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
