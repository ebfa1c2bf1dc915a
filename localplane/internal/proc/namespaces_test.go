// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const allNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC

func needNamespaces(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: making namespaces needs root; run the tests as root")
	}
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: allNamespaces}
	if err := cmd.Run(); err != nil {
		t.Skipf("SKIPPED: this machine makes no namespaces (%v); in a container, start it with --privileged", err)
	}
}

func TestStartsInsideTheNamespacesOfAProcess(t *testing.T) {
	needNamespaces(t)
	s := NewSpawner()
	t.Cleanup(s.Close)
	sleep := func(c Command) *Process {
		t.Helper()
		c.Path, c.Args = "/bin/sleep", []string{"60"}
		p, err := s.Start(c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Kill() })
		return p
	}
	own := namespacesOf(t, os.Getpid())
	first := sleep(Command{Unshare: allNamespaces})
	its := namespacesOf(t, first.PID)
	for kind, ns := range its {
		if ns == own[kind] {
			t.Errorf("a process with namespaces of its own shares %s with the machine", kind)
		}
	}
	inside := sleep(Command{Inside: first.PID})
	if got := namespacesOf(t, inside.PID); !maps.Equal(got, its) {
		t.Errorf("started inside %v, is in %v", its, got)
	}
	if !inside.Alive() {
		t.Error("the process inside did not live to do anything")
	}
	network := sleep(Command{Unshare: unix.CLONE_NEWNET})
	got, want := namespacesOf(t, network.PID), maps.Clone(own)
	if got["net"] == own["net"] {
		t.Error("no network namespace of its own")
	}
	want["net"] = got["net"]
	if got := namespacesOf(t, sleep(Command{Inside: network.PID}).PID); !maps.Equal(got, want) {
		t.Errorf("inside a network namespace only: in %v, want %v", got, want)
	}
	// The forking thread is at home again, and in the right directory.
	if got := namespacesOf(t, sleep(Command{}).PID); !maps.Equal(got, own) {
		t.Errorf("started outside after all this: in %v, want %v", got, own)
	}

	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, inside.Done(), "the process inside outlived the first process of its PID namespace")
	if got := inside.ExitReason(); got != "signal: killed" {
		t.Errorf("the process inside ended with %q, want %q", got, "signal: killed")
	}
}

func TestInsideAProcessThatIsGone(t *testing.T) {
	needNamespaces(t)
	s := NewSpawner()
	t.Cleanup(s.Close)
	gone, err := s.Start(Command{Path: "/bin/true"})
	if err != nil {
		t.Fatal(err)
	}
	<-gone.Done()
	if _, err := s.Start(Command{Path: "/bin/true", Inside: gone.PID}); err == nil || !strings.Contains(err.Error(), "must run") {
		t.Errorf("starting inside a process that is gone: %v", err)
	}
	p, err := s.Start(Command{Path: "/bin/true"})
	if err != nil {
		t.Fatalf("the failure before spoils this start: %v", err)
	}
	<-p.Done()
}

func TestWorkingDirectoryInsideAndAfter(t *testing.T) {
	needNamespaces(t)
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	s := NewSpawner()
	t.Cleanup(s.Close)
	first, err := s.Start(Command{Path: "/bin/sleep", Args: []string{"60"}, Unshare: allNamespaces})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = first.Kill() })
	for _, inside := range []int{first.PID, 0} {
		var out bytes.Buffer
		p, err := s.Start(Command{Path: "/bin/pwd", Args: []string{"-P"}, Output: &out, Inside: inside})
		if err != nil {
			t.Fatal(err)
		}
		<-p.Done()
		if got := strings.TrimSpace(out.String()); got != dir {
			t.Errorf("inside %d: in the directory %q, want %q", inside, got, dir)
		}
	}
}

// namespacesOf returns what the kernel calls the namespaces of a process, by kind.
func namespacesOf(t *testing.T, pid int) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, kind := range namespaceKinds() {
		name, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, kind.file))
		if err != nil {
			t.Fatal(err)
		}
		found[kind.file] = name
	}
	return found
}

func waitFor(t *testing.T, done <-chan struct{}, failure string) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal(failure)
	}
}
