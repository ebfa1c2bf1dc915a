// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startElsewhere starts a process in namespaces of its own that waits for the end of the test.
func startElsewhere(t *testing.T) *Process {
	t.Helper()
	needNamespaces(t)
	s := NewSpawner()
	t.Cleanup(s.Close)
	p, err := s.Start(Command{Path: "/bin/sleep", Args: []string{"60"}, Unshare: allNamespaces})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Kill() })
	return p
}

func TestWithinIsThereAndNobodyElseIs(t *testing.T) {
	p := startElsewhere(t)
	own, its := namespacesOf(t, os.Getpid()), namespacesOf(t, p.PID)
	failure := errors.New("told on")
	var kinds map[string]string
	err := Within(p.PID, func() error {
		kinds = map[string]string{}
		for _, kind := range namespaceKinds() {
			// Only a PID namespace is for children; /proc is that of the mount namespace, which is a copy of this one's.
			file := kind.file
			if file == "pid" {
				file = "pid_for_children"
			}
			name, err := os.Readlink(fmt.Sprintf("/proc/self/task/%d/ns/%s", syscall.Gettid(), file))
			if err != nil {
				return err
			}
			kinds[kind.file] = name
		}
		return failure
	})
	if !errors.Is(err, failure) {
		t.Errorf("error %v, want the function's own", err)
	}
	if !maps.Equal(kinds, its) {
		t.Errorf("within %v, want %v", kinds, its)
	}
	if now := namespacesOf(t, os.Getpid()); !maps.Equal(now, own) {
		t.Errorf("afterwards this program is in %v, was in %v", now, own)
	}
}

// TestKillOfWhatWaitsForAZombie starts a process in a PID namespace from outside and does not take notice of its end, like a program
// that was stopped: until it does, the first process of the namespace cannot end.
func TestKillOfWhatWaitsForAZombie(t *testing.T) {
	first := startElsewhere(t)
	inside := exec.Command("/bin/sleep", "60")
	if err := Within(first.PID, inside.Start); err != nil {
		t.Fatal(err)
	}
	if err := first.Lingers(); err != nil {
		t.Errorf("before anybody has killed it: %v", err)
	}
	first.killTimeout = 10 * time.Millisecond
	err := first.Kill()
	if first.Ended() {
		t.Error("the first process has ended")
	}
	if err == nil || !strings.Contains(err.Error(), "`fg`") || !strings.Contains(err.Error(), fmt.Sprint(first.PID)) {
		t.Errorf("error %v", err)
	}
	if err := first.Identity.Kill(10 * time.Millisecond); err == nil || !strings.Contains(err.Error(), "`fg`") {
		t.Errorf("when another run ends it: error %v", err)
	}
	if first.Lingers() == nil {
		t.Error("nothing is told of the process that still runs")
	}
	if err := inside.Wait(); err == nil {
		t.Error("the process inside was not killed")
	}
	waitFor(t, first.Done(), "the first process did not end after the one inside was buried")
	if err := errors.Join(first.Kill(), first.Lingers()); err != nil {
		t.Errorf("after its end: %v", err)
	}
}

func TestWhatIsOpenedWithinStaysThere(t *testing.T) {
	p := startElsewhere(t)
	// Such an address is known in one network namespace alone.
	const address = "@localplane-within"
	var l net.Listener
	err := Within(p.PID, func() (err error) {
		l, err = net.Listen("unix", address)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	dial := func() error {
		conn, err := net.Dial("unix", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	if err := Within(p.PID, dial); err != nil {
		t.Errorf("from within: %v", err)
	}
	if err := dial(); err == nil {
		t.Error("it can be reached from outside")
	}
}

func TestWithinAProcessThatIsGone(t *testing.T) {
	p := startElsewhere(t)
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	called := false
	err := Within(p.PID, func() error { called = true; return nil })
	if err == nil || called {
		t.Errorf("error %v, called %v", err, called)
	}
	if err := RunWithin(t.Context(), p.PID, Interactive{Argv: []string{"true"}}); err == nil {
		t.Error("a command was run within a process that is gone")
	}
}

func TestRunWithin(t *testing.T) {
	p := startElsewhere(t)
	var out, complaints bytes.Buffer
	script := "readlink /proc/self/ns/uts; pwd; cat; echo oops >&2; exit 7"
	err := RunWithin(t.Context(), p.PID, Interactive{Argv: []string{"sh", "-c", script}, In: strings.NewReader("asked"), Out: &out, Err: &complaints})
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("%v, want exit code 7", err)
	}
	if want := namespacesOf(t, p.PID)["uts"] + "\n/\nasked"; out.String() != want || complaints.String() != "oops\n" {
		t.Errorf("it wrote %q and %q, want %q", out.String(), complaints.String(), want)
	}
	if err := RunWithin(t.Context(), p.PID, Interactive{Argv: []string{"no-such-program"}}); err == nil || !strings.Contains(err.Error(), "no-such-program") {
		t.Errorf("a program that there is not: %v", err)
	}
}

func TestRunWithinEndsWithItsContext(t *testing.T) {
	p := startElsewhere(t)
	ctx, cancel := context.WithCancel(t.Context())
	began := make(chan struct{})
	// It says that it runs, and is interrupted then.
	out := writer(func() { close(began); cancel() })
	result := make(chan error, 1)
	go func() {
		result <- RunWithin(ctx, p.PID, Interactive{Argv: []string{"sh", "-c", "echo runs; exec sleep 60"}, Out: out})
	}()
	waitFor(t, began, "the command did not run")
	select {
	case err := <-result:
		if err == nil {
			t.Error("it ended well")
		}
	case <-time.After(30 * time.Second):
		t.Error("the command outlived its context")
	}
}

// writer calls a function when something is written.
type writer func()

func (w writer) Write(p []byte) (int, error) { w(); return len(p), nil }
