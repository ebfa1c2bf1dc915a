// SPDX-License-Identifier: Apache-2.0

package planetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"everynode.dev/everynode/localplane"
)

// up is a running `localplane up`.
type up struct {
	cmd   *exec.Cmd
	lines chan string
	// dashboard is the URL of the dashboard, once it is ready.
	dashboard string
}

func runUp(t *testing.T, dir string, args ...string) *up {
	t.Helper()
	cmd := exec.Command(program(t), append([]string{"up", "--dir", dir, "--dialects", "none", "--nodes", "1"}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	u := &up{cmd: cmd, lines: make(chan string, 100)}
	go func() {
		defer close(u.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			u.lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	return u
}

// ready reads until the line that begins with ready.
func (u *up) ready(t *testing.T) string {
	t.Helper()
	timeout := time.After(2 * time.Minute)
	for {
		select {
		case line, open := <-u.lines:
			if !open {
				t.Fatal("up ended before it was ready")
			}
			t.Log(line)
			if _, url, found := strings.Cut(line, "to see it in the browser: "); found {
				u.dashboard = url
			}
			if strings.HasPrefix(line, "ready") {
				return line
			}
		case <-timeout:
			t.Fatal("up was not ready after two minutes")
		}
	}
}

func TestUpKilledAndStartedAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := runUp(t, dir)
	line := first.ready(t)
	if want := "export KUBECONFIG=" + dir + "/kubeconfig"; !strings.Contains(line, want) {
		t.Errorf("the line %q does not contain %q", line, want)
	}
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "the components gone with it", func() error {
		if left := processes(t, dir); len(left) > 0 {
			return fmt.Errorf("%d are left", len(left))
		}
		return nil
	})

	second := runUp(t, dir)
	second.ready(t)
	if address, token, _ := strings.Cut(second.dashboard, "#token="); token == "" {
		t.Errorf("the URL of the dashboard is %q", second.dashboard)
	} else if answer, err := http.Get(address); err != nil {
		t.Error(err)
	} else if _ = answer.Body.Close(); answer.StatusCode != http.StatusOK {
		t.Errorf("the dashboard answers with %s", answer.Status)
	}
	third := exec.Command(program(t), "up", "--dir", dir)
	raw, err := third.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(raw), fmt.Sprint(second.cmd.Process.Pid)) {
		t.Errorf("a second up: %v, %s", err, raw)
	}
	// The kubectl of the machine, of any version, is not used.
	path := t.TempDir()
	if err := os.WriteFile(filepath.Join(path, "kubectl"), []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	kubectl := exec.Command(program(t), "kubectl", "--dir", dir, "get", "nodes", "-o", "name")
	kubectl.Env = append(os.Environ(), "PATH="+path)
	if raw, err := kubectl.CombinedOutput(); err != nil || !strings.Contains(string(raw), "node/node-0001") {
		t.Errorf("kubectl: %v, %s", err, raw)
	}
	began := time.Now()
	if raw, err := exec.Command(program(t), "down", "--dir", dir).CombinedOutput(); err != nil {
		t.Errorf("down: %v, %s", err, raw)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("down took %s", took)
	}
	if err := second.cmd.Wait(); err != nil {
		t.Errorf("the up that was taken down: %v", err)
	}
	nothingRuns(t, dir)
}

func TestUpInterruptedWhileStarting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	u := runUp(t, dir)
	// The first line says that etcd is ready; the API server is on its way.
	t.Log(<-u.lines)
	if err := u.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for range u.lines {
	}
	err := u.cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("exit %v, want code 1", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("stopping took %s", took)
	}
	nothingRuns(t, dir)
}

func TestTwoPlanesSideBySide(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	planes := make([]*localplane.Plane, 2)
	for i := range planes {
		o := options(t)
		o.Nodes = 1 + i
		wg.Go(func() {
			var err error
			if planes[i], err = localplane.Start(t.Context(), o); err != nil {
				t.Errorf("plane %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	for i, plane := range planes {
		if plane == nil {
			continue
		}
		status, err := plane.Status(t.Context())
		if err != nil || status.Nodes == nil || status.Nodes.Ready != 1+i {
			t.Errorf("plane %d: %+v, %v", i, status, err)
		}
	}
	for _, plane := range planes {
		if plane != nil {
			if err := plane.Stop(context.Background()); err != nil {
				t.Error(err)
			}
			nothingRuns(t, plane.Dir())
		}
	}
}

func TestStartIsCancelled(t *testing.T) {
	t.Parallel()
	o := options(t)
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	if plane, err := localplane.Start(ctx, o); err == nil {
		_ = plane.Stop(context.Background())
		t.Fatal("the start succeeded")
	}
	nothingRuns(t, o.Dir)
	if _, err := localplane.Attach(o.Dir); err == nil {
		t.Error("a plane that did not start can be attached to")
	}
}

// TestUpWhoseReaderHasGone is `localplane up | head -1`.
func TestUpWhoseReaderHasGone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.Command(program(t), "up", "--dir", dir, "--dialects", "none", "--nodes", "1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("reading the first line: %v", err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 2*time.Minute, "the node Ready", func() error {
		plane, err := localplane.Attach(dir)
		if err != nil {
			return err
		}
		status, err := plane.Status(t.Context())
		if err != nil {
			return err
		}
		if status.Nodes == nil || status.Nodes.Ready != 1 {
			return fmt.Errorf("%+v", status)
		}
		return nil
	})
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		t.Errorf("exit %v, want it to end by itself", err)
	}
	nothingRuns(t, dir)
}

func TestPlaneKeepsItsNodes(t *testing.T) {
	t.Parallel()
	o := options(t)
	for _, run := range []struct {
		asked, want int
		keep        bool
	}{{1, 1, true}, {3, 1, true}, {2, 2, false}} {
		o.Nodes, o.KeepNodes = run.asked, run.keep
		plane, err := localplane.Start(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		status, err := plane.Status(t.Context())
		if err != nil || status.Nodes == nil || status.Nodes.Ready != run.want {
			t.Errorf("asked for %d nodes, keeping %v: %+v, %v, want %d", run.asked, run.keep, status, err, run.want)
		}
		if err := plane.Stop(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}
