// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"everynode.dev/everynode/localplane/internal/home"
)

// Directory is where the plane of a demo lives.
type Directory struct {
	Path string
	// temporary is whether it was made for this demo alone.
	temporary bool
}

// UseDirectory returns the directory that is named, or a new temporary one when none is. The story begins with an empty
// cluster, so one that holds the state of an earlier plane is refused unless it may be wiped (fresh).
func UseDirectory(named string, fresh bool) (Directory, error) {
	if named == "" {
		path, err := os.MkdirTemp("", "everynode-demo-")
		if err != nil {
			return Directory{}, fmt.Errorf("making a temporary directory: %w: name a directory with --dir", err)
		}
		return Directory{Path: path, temporary: true}, nil
	}
	at, err := home.At(named)
	if err != nil {
		return Directory{}, err
	}
	if at.Exists() && !fresh {
		return Directory{}, fmt.Errorf("directory %s holds an earlier plane, and the demo begins with an empty one: "+
			"name another directory, or give --fresh to wipe this one", at.Dir())
	}
	return Directory{Path: named}, nil
}

// Leave removes a temporary directory, unless the demo failed and left logs behind: then it returns a sentence that says
// where they are.
func (d Directory) Leave(err error) string {
	logs := filepath.Join(d.Path, "logs")
	if _, missing := os.Stat(logs); err != nil && !errors.Is(err, errInterrupted) && missing == nil {
		return "the logs are in " + logs
	}
	if d.temporary {
		_ = os.RemoveAll(d.Path) // what is left of a finished demo does no harm
	}
	return ""
}
