// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"everynode.dev/everynode/localplane/internal/proc"
)

const (
	cgroupFS = "/sys/fs/cgroup"
	// procsFile lists the processes of a cgroup.
	procsFile = "cgroup.procs"
	// subtreeFile lists the controllers of the children of a version 2 cgroup.
	subtreeFile = "cgroup.subtree_control"
	// removeTimeout is the timeout for killed processes to end.
	removeTimeout = 10 * time.Second
	removeLook    = 20 * time.Millisecond
)

// Cgroups are the cgroups for the pods of the kubelets of a plane.
type Cgroups struct {
	// ID identifies the plane on the machine.
	ID string
}

// Path returns the cgroupRoot of the kubelet on node n.
func (c Cgroups) Path(n int) string { return "/" + c.top() + "/" + Name(n) }

func (c Cgroups) top() string { return "localplane-" + c.ID }

// Create creates the cgroups of node n. Those of the pods before a restart are removed, as on a machine that was off: a
// kubelet looks for the container of each directory, which has taken 25 seconds instead of one.
func (c Cgroups) Create(n int) error {
	if err := checkNumber(n); err != nil {
		return err
	}
	h, err := readHierarchies()
	if err != nil {
		return err
	}
	if err := h.removeInTime(c.Path(n)); err != nil {
		return fmt.Errorf("removing the cgroups of the last life of %s: %w", Name(n), err)
	}
	for _, root := range h.roots {
		dir := filepath.Join(root, c.Path(n))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making the cgroup of %s: %w", Name(n), err)
		}
		if !h.unified {
			continue
		}
		for _, parent := range []string{root, filepath.Join(root, c.top()), dir} {
			if err := delegate(parent); err != nil {
				return err
			}
		}
	}
	return nil
}

// Remove kills what still runs in the plane's cgroups and removes them. It is not an error if there are none.
func (c Cgroups) Remove() error {
	h, err := readHierarchies()
	if err != nil {
		return err
	}
	if err := h.removeInTime("/" + c.top()); err != nil {
		return fmt.Errorf("removing the plane's cgroups: %w", err)
	}
	return nil
}

// hierarchies are the cgroup hierarchies: one for each controller of v1, or the only one of v2.
type hierarchies struct {
	roots   []string
	unified bool
	// additional is the version 2 hierarchy that exists in addition to those of version 1. The kubelet does not use it, but runc creates
	// cgroups there too.
	additional []string
	// controllers are the usable controllers.
	controllers []string
}

// remove kills what runs in a cgroup and removes it, in all hierarchies. After late, each hierarchy is tried once more,
// without waiting.
func (h hierarchies) remove(path string, late <-chan struct{}) error {
	var errs []error
	for _, root := range slices.Concat(h.roots, h.additional) {
		errs = append(errs, removeTree(filepath.Join(root, path), late))
	}
	return errors.Join(errs...)
}

// removeInTime waits for the processes of all hierarchies together for at most removeTimeout.
func (h hierarchies) removeInTime(path string) error {
	late := make(chan struct{})
	defer time.AfterFunc(removeTimeout, func() { close(late) }).Stop()
	return h.remove(path, late)
}

func readHierarchies() (hierarchies, error) {
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return hierarchies{}, fmt.Errorf("looking for the cgroup file systems: %w", err)
	}
	h := parseHierarchies(string(raw))
	if len(h.roots) == 0 {
		return hierarchies{}, fmt.Errorf("no cgroup file system is mounted below %s", cgroupFS)
	}
	if h.unified {
		list, err := os.ReadFile(filepath.Join(h.roots[0], "cgroup.controllers"))
		if err != nil {
			return hierarchies{}, fmt.Errorf("reading the controllers: %w", err)
		}
		h.controllers = strings.Fields(string(list))
	}
	return h, nil
}

// parseHierarchies parses /proc/self/mountinfo.
func parseHierarchies(mountinfo string) hierarchies {
	var v1 hierarchies
	v2 := hierarchies{unified: true}
	lines := bufio.NewScanner(strings.NewReader(mountinfo))
	for lines.Scan() {
		mount, kind, found := strings.Cut(lines.Text(), " - ")
		before, after := strings.Fields(mount), strings.Fields(kind)
		const mountPoint, fsType, superOptions = 4, 0, 2
		if !found || len(before) <= mountPoint || len(after) <= superOptions {
			continue
		}
		root := before[mountPoint]
		switch {
		case after[fsType] == "cgroup" && filepath.Dir(root) == cgroupFS && !slices.Contains(v1.roots, root):
			v1.roots = append(v1.roots, root)
			v1.controllers = append(v1.controllers, strings.Split(after[superOptions], ",")...)
		case after[fsType] == "cgroup2" && root == cgroupFS:
			v2.roots = []string{root}
		case after[fsType] == "cgroup2" && filepath.Dir(root) == cgroupFS:
			v1.additional = []string{root}
		}
	}
	if len(v1.roots) > 0 {
		return v1
	}
	return v2
}

// unifiedControllers returns the controllers that the kubelet uses in a version 2 cgroup, if they exist.
func unifiedControllers() []string { return []string{"cpu", "cpuset", "memory", "pids", "hugetlb"} }

// delegate enables in the children of a version 2 cgroup the controllers that the kubelet needs. In the root cgroup
// this is never reverted, because other processes may depend on it when a plane ends. It changes nothing for the
// processes there.
func delegate(dir string) error {
	names, err := undelegated(dir)
	if err != nil {
		return err
	}
	for _, controller := range names {
		if err := os.WriteFile(filepath.Join(dir, subtreeFile), []byte("+"+controller), 0o600); err != nil {
			return fmt.Errorf("letting the children of the cgroup %s have the controller %s (in a container, move its processes into a child cgroup first): %w",
				dir, controller, err)
		}
	}
	return nil
}

// undelegated returns the controllers that delegate must enable.
func undelegated(dir string) ([]string, error) {
	has, err1 := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	passesOn, err2 := os.ReadFile(filepath.Join(dir, subtreeFile))
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("reading the controllers of the cgroup %s: %w", dir, err)
	}
	var names []string
	for _, controller := range strings.Fields(string(has)) {
		if slices.Contains(unifiedControllers(), controller) && !slices.Contains(strings.Fields(string(passesOn)), controller) {
			names = append(names, controller)
		}
	}
	return names, nil
}

// couldDelegate checks whether delegate would work, and changes nothing. Only the root cgroup of a machine can enable
// controllers in children while processes run in it: it is the one without a type.
func couldDelegate(dir string) error {
	names, err := undelegated(dir)
	if err != nil || len(names) == 0 || !exists(filepath.Join(dir, "cgroup.type")) {
		return err
	}
	pids, err := readProcesses(dir)
	if err == nil && len(pids) > 0 {
		err = fmt.Errorf("processes run in the cgroup %s itself, so its children cannot have %s: move those into a child cgroup", dir, strings.Join(names, ", "))
	}
	return err
}

// removeTree kills the processes of a cgroup and its descendants, and removes them.
func removeTree(top string, late <-chan struct{}) error {
	look := time.NewTicker(removeLook)
	defer look.Stop()
	for {
		err := removeOnce(top)
		if err == nil {
			return nil
		}
		select {
		case <-look.C:
		case <-late:
			return err
		}
	}
}

// removeOnce tries it once. A cgroup whose processes are ending is busy for a while.
func removeOnce(top string) error {
	var dirs []string
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			dirs = append(dirs, path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	var errs []error
	// The deepest first.
	for _, dir := range slices.Backward(dirs) {
		if err := endProcesses(dir); err != nil {
			errs = append(errs, err)
			continue
		}
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func endProcesses(dir string) error {
	pids, err := readProcesses(dir)
	if err != nil || len(pids) == 0 {
		return err
	}
	// A frozen process cannot end. Only version 1 has this file.
	if state := filepath.Join(dir, "freezer.state"); exists(state) {
		if err := os.WriteFile(state, []byte("THAWED"), 0o600); err != nil {
			return fmt.Errorf("thawing %s: %w", dir, err)
		}
	}
	var errs []error
	for _, pid := range pids {
		id, err := proc.Identify(pid)
		if err != nil {
			continue // it does not exist any more
		}
		// The pid may have been reused in between.
		if now, err := readProcesses(dir); err != nil || !slices.Contains(now, pid) {
			continue
		}
		if err := id.End(); err != nil {
			errs = append(errs, err)
		} else if id.Alive() {
			errs = append(errs, fmt.Errorf("process %d in %s still runs after SIGKILL", pid, dir))
		}
	}
	return errors.Join(errs...)
}

// readProcesses returns the processes of a cgroup, without those of its children.
func readProcesses(dir string) ([]int, error) {
	raw, err := os.ReadFile(filepath.Join(dir, procsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the processes of a cgroup: %w", err)
	}
	var pids []int
	for _, field := range strings.Fields(string(raw)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, fmt.Errorf("reading the processes of %s: %w", dir, err)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
