// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestParseStat(t *testing.T) {
	line := "42 (a) S) b) R 1 42 42 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 5 0 987654 1000 200 18446744073709551615"
	got, err := parseStat(line)
	if err != nil {
		t.Fatal(err)
	}
	want := stat{state: 'R', cpuTicks: 200, startTicks: 987654}
	if got != want {
		t.Errorf("parseStat = %+v, want %+v", got, want)
	}
	for _, bad := range []string{"", "42 (x", "42 (x) S 1 2 3", strings.Replace(line, "987654", "soon", 1)} {
		if _, err := parseStat(bad); err == nil {
			t.Errorf("parseStat(%q) found nothing wrong", bad)
		}
	}
}

func TestIdentityIsMoreThanAPid(t *testing.T) {
	self, err := Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if !self.Alive() {
		t.Fatal("this very process is said not to run")
	}
	otherStart, otherBoot := self, self
	otherStart.StartTicks++
	otherBoot.BootID = "another boot"
	for name, id := range map[string]Identity{"start": otherStart, "boot": otherBoot, "zero": {}} {
		if id.Alive() {
			t.Errorf("%s: a process that never ran is said to run", name)
		}
		// Must not end this test.
		if err := id.Kill(time.Second); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSpawnerStopsPolitelyThenByForce(t *testing.T) {
	s := NewSpawner()
	t.Cleanup(s.Close)
	for _, tc := range []struct{ name, script, reason string }{
		{"polite", "echo up; exec sleep 60", "signal: terminated"},
		{"deaf", "trap '' TERM; echo up; while :; do sleep 1; done", "signal: killed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out := newLineWriter()
			p, err := s.Start(Command{Path: "/bin/sh", Args: []string{"-c", tc.script}, Output: out})
			if err != nil {
				t.Fatal(err)
			}
			<-out.first
			if !p.Alive() {
				t.Fatal("the process is said not to run")
			}
			if err := p.Stop(300 * time.Millisecond); err != nil {
				t.Fatal(err)
			}
			if p.Alive() {
				t.Error("the process still runs")
			}
			if got := p.ExitReason(); got != tc.reason {
				t.Errorf("exit reason %q, want %q", got, tc.reason)
			}
		})
	}
}

func TestKillByIdentityEndsALeftover(t *testing.T) {
	s := NewSpawner()
	t.Cleanup(s.Close)
	p, err := s.Start(Command{Path: "/bin/sleep", Args: []string{"60"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Identity.Kill(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if p.Alive() {
		t.Error("the process still runs")
	}
}

// TestMain lets the test binary be the supervisor that TestProcessesEndWithTheirSupervisor kills.
func TestMain(m *testing.M) {
	role := os.Getenv("PROC_TEST_SUPERVISOR")
	if role == "" {
		os.Exit(m.Run())
	}
	s := NewSpawner()
	sleep := func(c Command) int {
		c.Path, c.Args = "/bin/sleep", []string{"60"}
		p, err := s.Start(c)
		if err != nil {
			panic(err)
		}
		return p.PID
	}
	if role == "plain" {
		fmt.Println(sleep(Command{}))
	} else {
		first := sleep(Command{Unshare: allNamespaces})
		inside := sleep(Command{Inside: first})
		network := sleep(Command{Unshare: unix.CLONE_NEWNET})
		fmt.Println(first, inside, network, sleep(Command{Inside: network}))
	}
	select {}
}

func TestProcessesEndWithTheirSupervisor(t *testing.T) {
	endWithSupervisor(t, "plain")
}

func TestProcessesInNamespacesEndWithTheirSupervisor(t *testing.T) {
	needNamespaces(t)
	endWithSupervisor(t, "namespaces")
}

func endWithSupervisor(t *testing.T, role string) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PROC_TEST_SUPERVISOR="+role)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, readErr := bufio.NewReader(out).ReadString('\n')
	var children []Identity
	for _, field := range strings.Fields(line) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Error(err)
		}
		child, err := Identify(pid)
		if err != nil || !child.Alive() {
			t.Errorf("process %d does not run while its supervisor does: %v", pid, err)
		}
		children = append(children, child)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if readErr != nil || len(children) == 0 {
		t.Fatalf("the supervisor said %q: %v", line, readErr)
	}
	for _, child := range children {
		for deadline := time.Now().Add(time.Minute); child.Alive(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				_ = child.Kill(time.Second)
				t.Fatal("the process outlived its supervisor, which was ended with SIGKILL")
			}
		}
	}
}

func TestUsageOfThisProcess(t *testing.T) {
	u, err := ReadUsage(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if u.RSS < 1<<20 {
		t.Errorf("a Go program with %d bytes of memory", u.RSS)
	}
	if _, err := ReadUsage(-1); err == nil {
		t.Error("usage of no process")
	}
}

func TestRaiseFileLimit(t *testing.T) {
	n, err := RaiseFileLimit()
	if err != nil || n == 0 {
		t.Fatalf("limit %d, error %v", n, err)
	}
}

// lineWriter tells when the first line was written.
type lineWriter struct {
	buf   bytes.Buffer
	first chan struct{}
}

func newLineWriter() *lineWriter { return &lineWriter{first: make(chan struct{})} }

func (w *lineWriter) Write(b []byte) (int, error) {
	if w.buf.Len() == 0 && len(b) > 0 {
		close(w.first)
	}
	return w.buf.Write(b)
}
