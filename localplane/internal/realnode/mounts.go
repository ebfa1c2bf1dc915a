// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// runDir and libDir are directories that are empty in a new node.
const (
	runDir = "/run"
	libDir = "/var/lib"
)

// diskMount is a directory of a node's disk and its mount point in the node.
type diskMount struct {
	disk, target string
	// optional mount points are skipped if the machine does not have them: a node creates no directories on the machine.
	optional bool
}

func diskMounts() []diskMount {
	return []diskMount{
		{disk: "kubelet", target: "/var/lib/kubelet"},
		{disk: "containerd", target: "/var/lib/containerd"},
		{disk: "cni", target: "/var/lib/cni"},
		{disk: "everynode-agent", target: "/var/lib/everynode-agent"},
		{disk: "log", target: "/var/log"},
		{disk: "srv", target: "/srv", optional: true},
	}
}

// Covers returns the directory, if any, that a node replaces by its own and that contains path: then path is not
// visible in the node.
func Covers(path string) (string, bool) {
	for _, m := range diskMounts() {
		if strings.HasPrefix(path+"/", m.target+"/") {
			return m.target, true
		}
	}
	return "", false
}

// masks returns settings of the machine that the kubelet would change, with the wanted values: in the node, files with
// these values cover the settings.
func masks() map[string]string {
	return map[string]string{
		"vm/overcommit_memory":      "1",
		"vm/panic_on_oom":           "0",
		"kernel/panic":              "10",
		"kernel/panic_on_oops":      "1",
		"kernel/keys/root_maxkeys":  "1000000",
		"kernel/keys/root_maxbytes": "25000000",
	}
}

// tree is a directory that was opened before anything is mounted over it, and its mount point.
type tree struct {
	fd     int
	target string
}

// mountAll mounts the file systems of the node. They are not visible outside, because the first step isolates the mount
// namespace.
func mountAll(o InitOptions) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("cutting the mounts off from the machine's: %w", err)
	}
	trees, err := openTrees(o)
	defer func() {
		for _, t := range trees {
			_ = unix.Close(t.fd)
		}
	}()
	if err != nil {
		return err
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	for _, dir := range []string{runDir, libDir} {
		if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
			return fmt.Errorf("mounting %s: %w", dir, err)
		}
	}
	for _, t := range trees {
		if err := t.mount(); err != nil {
			return err
		}
	}
	if err := mountMasks(); err != nil {
		return err
	}
	// The kubelet propagates mounts to and from containers (mountPropagation): in the node, all mounts are shared.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("sharing the mounts within the node: %w", err)
	}
	return nil
}

// openTrees opens the node's disk and the directories that must stay visible.
func openTrees(o InitOptions) ([]tree, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("looking up the path of this program: %w", err)
	}
	if err := os.MkdirAll(o.Root, 0o755); err != nil {
		return nil, fmt.Errorf("making the node's disk: %w", err)
	}
	var trees []tree
	add := func(source, target string) error {
		fd, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err != nil {
			return fmt.Errorf("taking hold of %s: %w", source, err)
		}
		trees = append(trees, tree{fd: fd, target: target})
		return nil
	}
	for _, dir := range append([]string{filepath.Dir(program), o.Root}, o.Keep...) {
		if !hidden(dir) {
			continue
		}
		if err := add(dir, dir); err != nil {
			return trees, err
		}
	}
	for _, m := range diskMounts() {
		if _, err := os.Stat(m.target); m.optional && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		source := filepath.Join(o.Root, m.disk)
		if err := os.MkdirAll(source, 0o755); err != nil {
			return trees, fmt.Errorf("making the node's disk: %w", err)
		}
		if err := add(source, m.target); err != nil {
			return trees, err
		}
	}
	return trees, nil
}

// hidden reports whether a node has its own directory over this path.
func hidden(path string) bool {
	for _, dir := range []string{runDir, libDir} {
		if strings.HasPrefix(filepath.Clean(path)+"/", dir+"/") {
			return true
		}
	}
	return false
}

// mount mounts the directory. Mount points are created only on the node's own tmpfs.
func (t tree) mount() error {
	if hidden(t.target) {
		if err := os.MkdirAll(t.target, 0o755); err != nil {
			return fmt.Errorf("making %s: %w", t.target, err)
		}
	}
	if err := unix.MoveMount(t.fd, "", unix.AT_FDCWD, t.target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mounting %s from the node's disk: %w", t.target, err)
	}
	return nil
}

func mountMasks() error {
	for name, value := range masks() {
		target := filepath.Join("/proc/sys", name)
		if _, err := os.Stat(target); errors.Is(err, fs.ErrNotExist) {
			continue // this kernel does not have the setting
		}
		file := filepath.Join(runDir, "localplane/sysctl", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return fmt.Errorf("making the settings of the node: %w", err)
		}
		if err := os.WriteFile(file, []byte(value+"\n"), 0o600); err != nil {
			return fmt.Errorf("making the settings of the node: %w", err)
		}
		if err := unix.Mount(file, target, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("covering %s: %w", target, err)
		}
	}
	return nil
}
