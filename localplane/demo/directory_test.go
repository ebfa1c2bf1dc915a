// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"everynode.dev/everynode/localplane/internal/home"
)

func TestTemporaryDirectoryGoesUnlessTheDemoFailed(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for _, c := range []struct {
		err         error
		logs, stays bool
	}{
		{nil, true, false},
		{errInterrupted, true, false},
		{errors.New("a node had 2 pods"), true, true},
		{errors.New("port 1 is in use"), false, false},
	} {
		dir, err := UseDirectory("", false)
		if err != nil {
			t.Fatal(err)
		}
		if c.logs {
			if err := os.Mkdir(filepath.Join(dir.Path, "logs"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		said := dir.Leave(c.err)
		if _, err := os.Stat(dir.Path); (err == nil) != c.stays || strings.Contains(said, dir.Path) != c.stays {
			t.Errorf("after %v: it stays: %v; said %q", c.err, err == nil, said)
		}
	}
}

func TestNamedDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plane")
	dir, err := UseDirectory(path, false)
	if err != nil || dir.Path != path {
		t.Fatalf("%+v, %v", dir, err)
	}
	at, err := home.At(path)
	if err == nil {
		err = at.Create()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := UseDirectory(path, false); err == nil || !strings.Contains(err.Error(), "--fresh") {
		t.Errorf("a directory with an earlier plane: %v", err)
	}
	if _, err := UseDirectory(path, true); err != nil {
		t.Errorf("a directory that may be wiped: %v", err)
	}
	dir.Leave(nil)
	if !at.Exists() {
		t.Error("a directory that was named has been removed")
	}
}
