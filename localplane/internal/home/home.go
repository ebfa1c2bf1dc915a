// SPDX-License-Identifier: Apache-2.0

// Package home is the directory of one plane: its layout, its lock, and its persistent state.
//
// A directory belongs to a plane if it has the marker file. Only files of the layout are ever removed from it, and only
// under the lock.
package home

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	marker     = ".localplane"
	markerText = "This directory holds a local control plane of Everynode. `localplane down` stops it, `localplane up --fresh` wipes it.\n"
)

// Home is the directory of one plane.
type Home struct {
	root string
}

// At returns the home in dir without changing it. The path is made absolute and free of symbolic links, so that each
// directory has one path.
func At(dir string) (Home, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return Home{}, fmt.Errorf("finding directory %s: %w", dir, err)
	}
	return Home{root: resolve(abs)}, nil
}

// resolve follows the links of the existing part of a path.
func resolve(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	return filepath.Join(resolve(parent), filepath.Base(path))
}

// Dir returns the absolute path of the home, without symbolic links.
func (h Home) Dir() string { return h.root }

// Kubeconfig returns the administrator's kubeconfig.
func (h Home) Kubeconfig() string { return h.path("kubeconfig") }

// PKI returns the directory of certificates and keys.
func (h Home) PKI() string { return h.path("pki") }

// Etcd returns etcd's data directory.
func (h Home) Etcd() string { return h.path("etcd") }

// Log returns the log file of a component.
func (h Home) Log(component string) string { return h.path("logs", component+".log") }

// AuditLog returns the audit log of the API server, one JSON object per line.
func (h Home) AuditLog() string { return h.path("logs", "audit.json") }

// ReadyFile returns the file in which a component without a health port writes its pid when it is ready.
func (h Home) ReadyFile(component string) string { return h.path("run", component+".ready") }

// Socket returns the control socket of the supervisor.
func (h Home) Socket() string { return h.path("run", "control.sock") }

// NodeAPIs returns the directory of the nodes that serve their API; each has a directory with token, store and address.
func (h Home) NodeAPIs() string { return h.path("node-api") }

// RealNode returns the directory of a real node: its disk, and the files that it reads.
func (h Home) RealNode(name string) string { return h.path("real", name) }

// CutFile returns the file that exists while a real node is cut off.
func (h Home) CutFile(name string) string { return h.path("real", name+".cut") }

// IsCut reports whether a real node is cut off.
func (h Home) IsCut(name string) bool {
	_, err := os.Stat(h.CutFile(name))
	return err == nil
}

// EgressSocket returns the socket of the gateway to the network of the real nodes.
func (h Home) EgressSocket() string { return h.path("run", "egress.sock") }

// RegistryPassword returns the file with the password for pushes to the registry.
func (h Home) RegistryPassword() string { return filepath.Join(h.PKI(), "registry-password") }

// Registry returns the directory of the pushed images, RegistryLog the log of requests to the registry.
func (h Home) Registry() string    { return h.path("registry") }
func (h Home) RegistryLog() string { return h.path("logs", "registry-requests.jsonl") }

func (h Home) lockFile() string  { return h.path("run", "lock") }
func (h Home) stateFile() string { return h.path("state.json") }
func (h Home) populated() string { return h.path("populated") }
func (h Home) path(elem ...string) string {
	return filepath.Join(append([]string{h.root}, elem...)...)
}

// kept returns the entries of the state of a plane; run/ stays, because it has the lock.
func (h Home) kept() []string {
	return []string{h.PKI(), h.Etcd(), h.path("logs"), h.Kubeconfig(), h.stateFile(), h.populated(), h.NodeAPIs(), h.path("real"), h.Registry()}
}

// Exists reports whether there is a plane's home here.
func (h Home) Exists() bool {
	_, err := os.Stat(h.path(marker))
	return err == nil
}

// Populated reports whether the plane has created its first nodes (possibly none) since it was new or wiped.
func (h Home) Populated() bool {
	_, err := os.Stat(h.populated())
	return err == nil
}

// MarkPopulated stores that the plane has created its first nodes.
func (h Home) MarkPopulated() error { return WriteFile(h.populated(), nil) }

// Create makes the directory a home, readable only by its owner. A directory with other files is refused.
func (h Home) Create() error {
	if err := os.MkdirAll(h.root, 0o700); err != nil {
		return h.unusable(err)
	}
	if !h.Exists() {
		entries, err := os.ReadDir(h.root)
		if err != nil {
			return h.unusable(err)
		}
		if len(entries) > 0 {
			return fmt.Errorf("directory %s holds other things (%s, …) and is not a localplane directory: name an empty or a new one with --dir",
				h.root, entries[0].Name())
		}
	}
	for _, dir := range []string{h.root, h.path("run"), h.path("logs"), h.PKI()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return h.unusable(err)
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			return h.unusable(err)
		}
	}
	if err := os.WriteFile(h.path(marker), []byte(markerText), 0o600); err != nil {
		return h.unusable(err)
	}
	return nil
}

// Wipe removes the state of the plane, and nothing else.
func (h Home) Wipe() error {
	if !h.Exists() {
		return fmt.Errorf("directory %s is not a localplane directory, so nothing in it is removed", h.root)
	}
	for _, path := range h.kept() {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("wiping %s: %w", h.root, err)
		}
	}
	return h.Create()
}

func (h Home) unusable(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	return fmt.Errorf("directory %s cannot be used (%w): name one that you may write to with --dir", h.root, err)
}
