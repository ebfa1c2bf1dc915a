// SPDX-License-Identifier: Apache-2.0

package planetest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/localplane"
	"everynode.dev/everynode/localplane/internal/component"
	"everynode.dev/everynode/localplane/internal/home"
	"everynode.dev/everynode/localplane/internal/proc"
)

// machine is what no plane may change.
type machine struct {
	Mounts   string
	Links    []string
	Settings map[string]string
	// Opt is whether there is the directory that a containerd makes unless it is told not to.
	Opt bool
}

func lookAtMachine(t *testing.T) machine {
	t.Helper()
	read := func(path string) string {
		raw, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return string(raw)
	}
	m := machine{Mounts: read("/proc/self/mountinfo"), Settings: map[string]string{}}
	for _, name := range []string{
		"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
		"net/ipv4/ip_forward",
	} {
		m.Settings[name] = read("/proc/sys/" + name)
	}
	_, err := os.Stat("/opt/containerd")
	m.Opt = err == nil
	links, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		m.Links = append(m.Links, link.Name)
	}
	return m
}

func (m machine) expectSame(t *testing.T) {
	t.Helper()
	if now := lookAtMachine(t); !reflect.DeepEqual(now, m) {
		t.Errorf("the machine was changed: it is\n%+v\nand was\n%+v", now, m)
	}
}

// traces are what a plane with real nodes has made on the machine, while it runs.
type traces struct {
	dir        string
	processes  []proc.Identity
	namespaces map[string]bool
	cgroups    []string
}

// namespacesOf are the network, mount and PID namespace of a process, by the names that the kernel gives them.
func namespacesOf(pid string) []string {
	var list []string
	for _, kind := range []string{"net", "mnt", "pid"} {
		if name, err := os.Readlink(filepath.Join("/proc", pid, "ns", kind)); err == nil {
			list = append(list, name)
		}
	}
	return list
}

// everybody calls f for each process of the machine.
func everybody(t *testing.T, f func(pid string, namespaces []string)) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err == nil {
			f(e.Name(), namespacesOf(e.Name()))
		}
	}
}

// inside are the processes that share a namespace with one of those given that this program does not have.
func inside(t *testing.T, pids ...int) ([]proc.Identity, map[string]bool) {
	t.Helper()
	foreign := map[string]bool{}
	for _, pid := range pids {
		for _, name := range namespacesOf(strconv.Itoa(pid)) {
			foreign[name] = true
		}
	}
	for _, own := range namespacesOf("self") {
		delete(foreign, own)
	}
	// Pods have network and PID namespaces of their own, in the node's mount namespace or in a copy of it; so those whose parents are inside
	// are inside too.
	var found []proc.Identity
	for grown := true; grown; {
		grown = false
		found = nil
		everybody(t, func(pid string, namespaces []string) {
			is := isChildOf(found, pid)
			for _, name := range namespaces {
				is = is || foreign[name]
			}
			n, _ := strconv.Atoi(pid)
			id, err := proc.Identify(n)
			if !is || err != nil {
				return
			}
			found = append(found, id)
			for _, name := range namespaces {
				if !foreign[name] && !isOwn(name) {
					foreign[name], grown = true, true
				}
			}
		})
	}
	return found, foreign
}

func isOwn(namespace string) bool {
	for _, own := range namespacesOf("self") {
		if own == namespace {
			return true
		}
	}
	return false
}

func isChildOf(list []proc.Identity, pid string) bool {
	raw, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return false
	}
	for _, id := range list {
		if parentOf(string(raw)) == id.PID {
			return true
		}
	}
	return false
}

func cgroupsOf(t *testing.T, dir string) []string {
	t.Helper()
	h, err := home.At(dir)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Dir(component.Inputs{Home: h}.Cgroups().Path(1))
	var found []string
	for _, pattern := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		list, err := filepath.Glob(filepath.Join(pattern, name))
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, list...)
	}
	return found
}

// follow notes what a plane has made so far.
func follow(t *testing.T, plane *localplane.Plane) traces {
	t.Helper()
	status, err := plane.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, c := range status.Components {
		pids = append(pids, c.PID)
	}
	tr := traces{dir: plane.Dir(), cgroups: cgroupsOf(t, plane.Dir())}
	tr.processes, tr.namespaces = inside(t, pids...)
	if len(tr.processes) < 8 || len(tr.namespaces) < 4 || len(tr.cgroups) == 0 {
		t.Fatalf("the test does not see what real nodes make: %+v", tr)
	}
	t.Logf("%d processes in %d namespaces, %d cgroups", len(tr.processes), len(tr.namespaces), len(tr.cgroups))
	return tr
}

// left tells what is still there of it, but for cgroups.
func (tr traces) left(t *testing.T) error {
	t.Helper()
	for _, id := range tr.processes {
		if id.Alive() {
			return fmt.Errorf("process %d runs", id.PID)
		}
	}
	var last uint64
	for _, id := range tr.processes {
		last = max(last, id.StartTicks)
	}
	var err error
	everybody(t, func(pid string, namespaces []string) {
		n, _ := strconv.Atoi(pid)
		// The kernel gives the names out again: who has started later is somebody else's.
		if id, gone := proc.Identify(n); gone != nil || !id.Alive() || id.StartTicks > last {
			return
		}
		for _, name := range namespaces {
			if tr.namespaces[name] {
				err = fmt.Errorf("process %s keeps %s", pid, name)
			}
		}
	})
	return err
}

// goneWithin waits until nothing is left, but for cgroups.
func (tr traces) goneWithin(t *testing.T, timeout time.Duration) {
	t.Helper()
	eventually(t, timeout, "processes and namespaces gone", func() error {
		if left := processes(t, tr.dir); len(left) > 0 {
			return fmt.Errorf("%v run", left)
		}
		return tr.left(t)
	})
}

// gone expects that nothing at all is left.
func (tr traces) gone(t *testing.T) {
	t.Helper()
	nothingRuns(t, tr.dir)
	if err := tr.left(t); err != nil {
		t.Error(err)
	}
	if left := cgroupsOf(t, tr.dir); len(left) > 0 {
		t.Errorf("cgroups are left: %v", left)
	}
}

// parentOf reads the parent out of /proc/PID/stat, whose second field may hold anything, in brackets.
func parentOf(stat string) int {
	after := stat[strings.LastIndex(stat, ")")+1:]
	var state string
	var parent int
	if _, err := fmt.Sscan(after, &state, &parent); err != nil {
		return 0
	}
	return parent
}
