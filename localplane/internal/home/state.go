// SPDX-License-Identifier: Apache-2.0

package home

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"everynode.dev/everynode/localplane/internal/proc"
)

// State is the persistent state of a plane.
type State struct {
	// Ports are the ports of the last run, by purpose.
	Ports map[string]int `json:"ports,omitempty"`
	// RealNodes is the number of real nodes.
	RealNodes int `json:"realNodes,omitempty"`
	// Containerd is the requested program of containerd; empty means the default.
	Containerd string `json:"containerd,omitempty"`
	// Processes are the processes that were started and have not been observed to end, by component.
	Processes map[string]proc.Identity `json:"processes,omitempty"`
}

// LoadState reads the state; it is empty if there is none.
func (h Home) LoadState() (State, error) {
	var s State
	raw, err := os.ReadFile(h.stateFile())
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("reading the plane's state: %w", err)
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return s, fmt.Errorf("reading the plane's state in %s: %w (start with --fresh to wipe it)", h.stateFile(), err)
	}
	return s, nil
}

// SaveState writes the state atomically.
func (h Home) SaveState(s State) error {
	raw, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the plane's state: %w", err)
	}
	return WriteFile(h.stateFile(), append(raw, '\n'))
}

// WriteFile replaces a file atomically; only the owner may read it.
func WriteFile(path string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(data)
	if err := errors.Join(err, tmp.Chmod(0o600), tmp.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
