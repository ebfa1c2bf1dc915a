// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"everynode.dev/everynode/localplane/internal/home"
)

// Directory is the directory of the plane of a demo.
type Directory struct {
	Path string
	// temporary reports whether it was created for this demo.
	temporary bool
}

// UseDirectory returns the named directory, or a new temporary one. The demo needs an empty cluster, so a directory
// with the state of an earlier plane is refused unless it may be wiped (fresh).
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

// Leave removes a temporary directory. If the demo failed and there are logs, it keeps it, and returns a sentence with
// their path.
func (d Directory) Leave(err error) string {
	logs := filepath.Join(d.Path, "logs")
	if _, missing := os.Stat(logs); err != nil && !errors.Is(err, errInterrupted) && missing == nil {
		return "the logs are in " + logs
	}
	if d.temporary {
		_ = os.RemoveAll(d.Path) // remaining files of a finished demo are harmless
	}
	return ""
}
