// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"everynode.dev/everynode/localplane/internal/proc"
)

const (
	mountsV1 = `31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:10 - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime shared:11 - cgroup cgroup rw,xattr,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:12 - cgroup2 cgroup2 rw
90 1 0:32 / /home/x/rootfs/sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
`
	mountsV2 = `24 1 254:0 / / rw,relatime - ext4 /dev/vda rw
31 23 0:28 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate
90 1 0:28 / /home/x/rootfs/sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw
`
)

func TestParseHierarchies(t *testing.T) {
	v1 := parseHierarchies(mountsV1)
	if want := []string{"/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/systemd"}; v1.unified || !reflect.DeepEqual(v1.roots, want) {
		t.Errorf("version 1: %+v, want %v", v1, want)
	}
	for _, name := range []string{"cpu", "cpuacct", "memory"} {
		if !strings.Contains(" "+strings.Join(v1.controllers, " ")+" ", " "+name+" ") {
			t.Errorf("version 1 lacks %s: %v", name, v1.controllers)
		}
	}
	if want := []string{"/sys/fs/cgroup/unified"}; !reflect.DeepEqual(v1.additional, want) {
		t.Errorf("version 2 next to version 1: %v, want %v", v1.additional, want)
	}
	v2 := parseHierarchies(mountsV2)
	if want := []string{"/sys/fs/cgroup"}; !v2.unified || !reflect.DeepEqual(v2.roots, want) {
		t.Errorf("version 2: %+v, want %v", v2, want)
	}
	if none := parseHierarchies("24 1 254:0 / / rw,relatime - ext4 /dev/vda rw\nnonsense\n"); len(none.roots) != 0 {
		t.Errorf("no cgroups: %+v", none)
	}
}

func TestCgroupPath(t *testing.T) {
	if got := (Cgroups{ID: "0123abcd"}).Path(7); got != "/localplane-0123abcd/real-7" {
		t.Errorf("path %q", got)
	}
}

func TestCgroupsAreRemovedWithWhatRunsInThem(t *testing.T) {
	needMachines(t)
	c := testCgroups(t)
	if err := c.Remove(); err != nil {
		t.Fatalf("removing none: %v", err)
	}
	for _, n := range []int{1, 2, 2} {
		if err := c.Create(n); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Create(Max + 1); err == nil {
		t.Error("a cgroup for a node that cannot be")
	}
	roots := c.directories(t)
	if len(roots) == 0 {
		t.Fatal("no directories were made")
	}
	s := proc.NewSpawner()
	t.Cleanup(s.Close)
	var sleepers []*proc.Process
	for _, root := range roots {
		sleeper, err := s.Start(proc.Command{Path: "/bin/sleep", Args: []string{"60"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = sleeper.Kill() })
		sleepers = append(sleepers, sleeper)
		pod := filepath.Join(root, Name(2), "pod")
		if err := os.Mkdir(pod, 0o755); err != nil {
			t.Fatal(err)
		}
		// Only cpuset wants to be told more before it takes processes; a kubelet does that.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			inherit(t, root, pod, file)
		}
		if err := os.WriteFile(filepath.Join(pod, procsFile), []byte(strconv.Itoa(sleeper.PID)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := runningIn(t, c); got != len(roots) {
		t.Errorf("%d processes in the cgroups, want %d", got, len(roots))
	}
	if err := c.Remove(); err != nil {
		t.Fatal(err)
	}
	for _, sleeper := range sleepers {
		<-sleeper.Done()
	}
	if left := c.directories(t); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := c.Remove(); err != nil {
		t.Errorf("removing again: %v", err)
	}
}

// A node that comes back from a loss of power must not find the cgroups of its containers: no machine does.
func TestCgroupsOfANodeAreMadeAgain(t *testing.T) {
	needMachines(t)
	c := testCgroups(t)
	for _, n := range []int{1, 2} {
		if err := c.Create(n); err != nil {
			t.Fatal(err)
		}
		for _, root := range c.directories(t) {
			if err := os.MkdirAll(filepath.Join(root, Name(n), "kubepods/pod"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := c.Create(1); err != nil {
		t.Fatal(err)
	}
	for _, root := range c.directories(t) {
		if !exists(filepath.Join(root, Name(1))) || exists(filepath.Join(root, Name(1), "kubepods")) {
			t.Errorf("%s of %s is not new", Name(1), root)
		}
		if !exists(filepath.Join(root, Name(2), "kubepods/pod")) {
			t.Errorf("%s of %s was removed too", Name(2), root)
		}
	}
}

// inherit gives a new cpuset of version 1 what its hierarchy has; elsewhere the files are not there, or fill themselves.
func inherit(t *testing.T, top, leaf, file string) {
	t.Helper()
	value, err := os.ReadFile(filepath.Join(filepath.Dir(top), file))
	if err != nil {
		return
	}
	for _, dir := range []string{top, filepath.Dir(leaf), leaf} {
		if err := os.WriteFile(filepath.Join(dir, file), value, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// testCgroups are cgroups of this test alone, removed with it.
func testCgroups(t *testing.T) Cgroups {
	t.Helper()
	c := Cgroups{ID: fmt.Sprintf("test-%d", os.Getpid())}
	t.Cleanup(func() {
		if err := c.Remove(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// directories are the plane's top directories that are there.
func (c Cgroups) directories(t *testing.T) []string {
	t.Helper()
	h, err := readHierarchies()
	if err != nil {
		t.Fatal(err)
	}
	var there []string
	for _, root := range slices.Concat(h.roots, h.additional) {
		if dir := filepath.Join(root, c.top()); exists(dir) {
			there = append(there, dir)
		}
	}
	return there
}

// runningIn counts the processes in the cgroups of a plane.
func runningIn(t *testing.T, c Cgroups) int {
	t.Helper()
	found := map[int]bool{}
	for _, top := range c.directories(t) {
		err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.IsDir() {
				return nil //nolint:nilerr // the cgroup goes while it is looked at
			}
			pids, err := readProcesses(path)
			for _, pid := range pids {
				found[pid] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return len(found)
}

// TestDelegate uses plain files in place of a version 2 cgroup, of which they keep the last line that is written.
func TestDelegate(t *testing.T) {
	for _, tc := range []struct{ has, passesOn, want string }{
		{"io memory pids rdma", "memory", "+pids"},
		{"cpu io", "", "+cpu"},
		{"cpu memory misc", "cpu memory", "cpu memory"},
	} {
		dir := t.TempDir()
		control := filepath.Join(dir, "cgroup.subtree_control")
		for path, content := range map[string]string{filepath.Join(dir, "cgroup.controllers"): tc.has, control: tc.passesOn} {
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := delegate(dir); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(control); err != nil || string(got) != tc.want {
			t.Errorf("controllers %q, handed down %q: then %q (%v), want %q", tc.has, tc.passesOn, got, err, tc.want)
		}
	}
	if err := delegate(t.TempDir()); err == nil {
		t.Error("a directory that is no cgroup")
	}
}

// TestCheckOnlyReadsWhatIsHandedDown uses plain files in place of a version 2 cgroup.
func TestCheckOnlyReadsWhatIsHandedDown(t *testing.T) {
	const some, all = "memory", "cpu memory"
	for name, tc := range map[string]struct {
		passesOn, procs string
		topmost, wants  bool
	}{
		"the topmost cgroup of a machine": {some, "1\n2\n", true, true},
		"a container's with processes":    {some, "1\n", false, false},
		"a container's without":           {some, "", false, true},
		"nothing is to be done":           {all, "1\n", false, true},
	} {
		dir := t.TempDir()
		files := map[string]string{"cgroup.controllers": all + " rdma", subtreeFile: tc.passesOn, procsFile: tc.procs}
		if !tc.topmost {
			files["cgroup.type"] = "domain"
		}
		for name, content := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err := hierarchies{roots: []string{dir}, unified: true}.tryOut()
		if (err == nil) != tc.wants {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && (!strings.Contains(err.Error(), "cannot have cpu: move those") || !strings.Contains(err.Error(), dir)) {
			t.Errorf("%s: no remedy in %v", name, err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, subtreeFile)); err != nil || string(got) != tc.passesOn {
			t.Errorf("%s: the check wrote %q (%v)", name, got, err)
		}
		if exists(filepath.Join(dir, checkName)) {
			t.Errorf("%s: the check left its cgroup", name)
		}
	}
}

func TestCheckRemovesTheCgroupOfOneThatWasKilled(t *testing.T) {
	dir, gone := t.TempDir(), filepath.Join(t.TempDir(), "gone")
	left := filepath.Join(dir, checkName)
	if err := os.Mkdir(left, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := (hierarchies{roots: []string{dir}}).tryOut(); err != nil || exists(left) {
		t.Errorf("it is there: %v, error %v", exists(left), err)
	}
	if err := (hierarchies{roots: []string{dir, gone}}).tryOut(); err == nil || !strings.Contains(err.Error(), gone) {
		t.Errorf("a hierarchy that cannot be written to: %v", err)
	}
}

// What cannot be removed is waited for once, and not once more in each hierarchy: when it is late each is only tried.
func TestHierarchiesAreRemovedInOneTime(t *testing.T) {
	h := hierarchies{}
	for range 3 {
		root := t.TempDir()
		h.roots = append(h.roots, root)
		if err := os.MkdirAll(filepath.Join(root, "plane/pod"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	busy := filepath.Join(h.roots[1], "plane/pod/file")
	if err := os.WriteFile(busy, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	late := make(chan struct{})
	close(late)
	if err := h.remove("/plane", late); err == nil || !strings.Contains(err.Error(), filepath.Dir(busy)) {
		t.Errorf("error %v", err)
	}
	for i, root := range h.roots {
		if left := exists(filepath.Join(root, "plane")); left != (i == 1) {
			t.Errorf("hierarchy %d: left behind %v", i, left)
		}
	}
}
