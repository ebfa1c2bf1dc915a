// SPDX-License-Identifier: Apache-2.0

package planetest

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"everynode.dev/everynode/localplane"
)

// TestUpWithRealNodesIsKilled kills `up` twice: the next one, and `down`, leave nothing of it.
func TestUpWithRealNodesIsKilled(t *testing.T) {
	t.Parallel()
	needRealNodes(t)
	before := lookAtMachine(t)
	dir := t.TempDir()

	first := runUp(t, dir, "--real-nodes", "2")
	first.ready(t)
	plane := attach(t, dir)
	if err := plane.CutNode(t.Context(), "real-2"); err != nil {
		t.Fatal(err)
	}
	killed := kill(t, plane, first)
	before.expectSame(t)

	// The nodes are kept, and so is the cut.
	second := runUp(t, dir)
	second.ready(t)
	plane = attach(t, dir)
	if err := killed.left(t); err != nil {
		t.Errorf("after the next up: %v", err)
	}
	status, err := plane.Status(t.Context())
	if err != nil || status.Nodes == nil || *status.Nodes != (localplane.NodeCount{Ready: 2, Cut: 1}) {
		t.Errorf("after the next up: nodes %+v, %v", status.Nodes, err)
	}
	if err := plane.HealNode(t.Context(), "real-2"); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "the healed node Ready", func() error {
		status, err := plane.Status(t.Context())
		if err != nil {
			return err
		}
		if status.Nodes == nil || status.Nodes.Ready != 3 {
			return errors.New("it is not")
		}
		return nil
	})
	killed = kill(t, plane, second)
	out, err := exec.Command(program(t), "down", "--dir", dir).CombinedOutput()
	if err != nil {
		t.Errorf("down: %v, %s", err, out)
	}
	killed.gone(t)
	before.expectSame(t)
}

func attach(t *testing.T, dir string) *localplane.Plane {
	t.Helper()
	plane, err := localplane.Attach(dir)
	if err != nil {
		t.Fatal(err)
	}
	return plane
}

// kill ends an up with SIGKILL: everything but cgroups goes with it.
func kill(t *testing.T, plane *localplane.Plane, u *up) traces {
	t.Helper()
	traces := follow(t, plane)
	if err := u.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	traces.goneWithin(t, 10*time.Second)
	return traces
}

// TestUpWithRealNodesAsSomebodyElse runs as a user who may do nothing of what real nodes need.
func TestUpWithRealNodesAsSomebodyElse(t *testing.T) {
	t.Parallel()
	path := program(t)
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root can be somebody else; run the tests as root")
	}
	const nobody = 65534
	base := t.TempDir()
	if err := errors.Join(os.Chown(base, nobody, nobody), os.Chmod(filepath.Dir(base), 0o711)); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (string, error) {
		cmd := exec.Command(path, args...)
		cmd.Dir = base
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody, NoSetGroups: false}}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run("--help"); err != nil {
		t.Skipf("SKIPPED: other users may not run %s (%v %s); build it in a directory that they may read", path, err, out)
	}
	dir := filepath.Join(base, "p")
	out, err := run("up", "--dir", dir, "--dialects", "none", "--real-nodes", "1", "--containerd", "/nowhere/containerd")
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("%v, want exit code 1", err)
	}
	for _, want := range []string{"real nodes need what is missing here:\n", "  - root: run it as root (sudo)", "  - containerd at /nowhere/containerd: "} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in the output:\n%s", want, out)
		}
	}
	nothingRuns(t, dir)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != ".localplane" && d.Name() != "lock" {
			t.Errorf("it has left %s", path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
