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
	// subtreeFile lists the controllers that the children of a version 2 cgroup have.
	subtreeFile = "cgroup.subtree_control"
	// removeTimeout is for processes that have been killed and still have to go.
	removeTimeout = 10 * time.Second
	removeLook    = 20 * time.Millisecond
)

// Cgroups are the directories in which the kubelets of a plane account their pods.
type Cgroups struct {
	// ID tells the planes of a machine apart.
	ID string
}

// Path is the kubelet's cgroupRoot on node n.
func (c Cgroups) Path(n int) string { return "/" + c.top() + "/" + Name(n) }

func (c Cgroups) top() string { return "localplane-" + c.ID }

// Create makes the directories of node n anew. What the pods of its last life have left there is removed, as on a machine that
// was off: a kubelet looks for the container of each directory, and was seen to need 25 seconds for that instead of one.
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

// Remove ends what still runs in the plane's cgroups and removes their directories. It is no error if there are none.
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

// hierarchies are the places where cgroups are made: one for each controller of v1, or the only one of v2.
type hierarchies struct {
	roots   []string
	unified bool
	// beside is a version 2 hierarchy beside those of version 1. The kubelet does not use it, but runc makes its
	// directories there too.
	beside []string
	// controllers are those that can be used.
	controllers []string
}

// remove ends what runs in a cgroup and removes it, in all hierarchies. When it is late each is tried once more, and not waited for.
func (h hierarchies) remove(path string, late <-chan struct{}) error {
	var errs []error
	for _, root := range slices.Concat(h.roots, h.beside) {
		errs = append(errs, removeTree(filepath.Join(root, path), late))
	}
	return errors.Join(errs...)
}

// removeInTime waits for the processes of all hierarchies together no longer than removeTimeout.
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

// parseHierarchies reads /proc/self/mountinfo.
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
			v1.beside = []string{root}
		}
	}
	if len(v1.roots) > 0 {
		return v1
	}
	return v2
}

// unifiedControllers are those that the kubelet looks for in a version 2 cgroup; it takes none that is not there.
func unifiedControllers() []string { return []string{"cpu", "cpuset", "memory", "pids", "hugetlb"} }

// delegate lets the children of a version 2 cgroup have those controllers of its own that the kubelet needs. For the
// topmost cgroup that lasts, because nobody can tell who else counts on it by the time that a plane ends. It changes
// nothing for the processes that run there.
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

// undelegated are the controllers that delegate has to hand down.
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

// couldDelegate tells whether delegate would work, and changes nothing. Only the topmost cgroup of a machine hands
// controllers down while processes run in it: it is the one without a type.
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

// removeTree ends the processes of a cgroup and all below it, and removes it.
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

// removeOnce tries it once. A cgroup whose processes are about to go is busy for a while yet.
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
	// A frozen process does not even end. Only version 1 has this file.
	if state := filepath.Join(dir, "freezer.state"); exists(state) {
		if err := os.WriteFile(state, []byte("THAWED"), 0o600); err != nil {
			return fmt.Errorf("thawing %s: %w", dir, err)
		}
	}
	var errs []error
	for _, pid := range pids {
		id, err := proc.Identify(pid)
		if err != nil {
			continue // gone in the meantime
		}
		// The number may have been given to another process between the two.
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

// readProcesses returns the processes of a cgroup, those of its children not included.
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
