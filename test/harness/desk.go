// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// Desk is a directory with bin and docs, and a shell in it, in which a test runs the commands of a page as a user does.
type Desk struct {
	// Client is a client of the plane, once there is one.
	Client kubernetes.Interface

	t       testing.TB
	dir     string
	exports []string
	up      *exec.Cmd
	ended   chan error
	down    bool // the page has stopped the plane
}

// NewDesk creates the directory. It is removed with the plane, or kept if the test fails.
func NewDesk(t testing.TB) *Desk {
	t.Helper()
	dir, err := os.MkdirTemp("", "everynode-desk-") //nolint:usetesting // it is removed only after a plane that may be stuck has ended
	if err != nil {
		t.Fatal(err)
	}
	docs, err := filepath.Abs(filepath.Join("..", "..", "docs"))
	if err = errors.Join(err, os.Symlink(docs, filepath.Join(dir, "docs")), os.Symlink(BinDir(), filepath.Join(dir, "bin"))); err != nil {
		t.Fatal(err)
	}
	// The machine may have no kubectl. That of localplane finds plugins in PATH, and must not find this file.
	kubectl := "#!/bin/sh\nPATH=${PATH#*" + filepath.Join(dir, "path") + ":}\nexport PATH\nexec bin/localplane kubectl \"$@\"\n"
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "path"), 0o755), os.WriteFile(filepath.Join(dir, "path", "kubectl"), []byte(kubectl), 0o755)); err != nil {
		t.Fatal(err)
	}
	return &Desk{t: t, dir: dir}
}

// Path returns the path of a file in the directory.
func (d *Desk) Path(name string) string { return filepath.Join(d.dir, name) }

// Command returns a command in the directory, with all exported variables.
func (d *Desk) Command(ctx context.Context, line string) *exec.Cmd {
	script := strings.Join(append(d.exports, "export PATH="+filepath.Join(d.dir, "path")+":$PATH", line), "\n")
	c := exec.CommandContext(ctx, "bash", "-ec", script)
	c.Dir = d.dir
	return c
}

// Type runs a command, which must succeed, and returns its output. Exported variables apply to all later commands. A
// plane runs until the test ends, or a command stops it.
func (d *Desk) Type(line string) string {
	d.t.Helper()
	switch {
	case strings.HasPrefix(line, "bin/localplane up "):
		d.start(line)
		return ""
	case strings.HasPrefix(line, "export "):
		d.exports = append(d.exports, line)
		return ""
	}
	ctx, cancel := context.WithTimeout(d.t.Context(), Patience)
	defer cancel()
	out, err := d.Command(ctx, line).CombinedOutput()
	if err != nil {
		d.t.Fatalf("$ %s\n%s%v", line, out, err)
	}
	d.t.Logf("$ %s\n%s", line, out)
	d.down = d.down || line == "bin/localplane down"
	return string(out)
}

// TypeUntil repeats a command until it succeeds and its output passes met.
func (d *Desk) TypeUntil(line string, met func(out string) error) string {
	d.t.Helper()
	var out []byte
	d.Poll("$ "+line, func() error {
		var err error
		if out, err = d.Command(d.t.Context(), line).CombinedOutput(); err == nil {
			err = met(string(out))
		}
		if err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
	d.t.Logf("$ %s\n%s", line, out)
	return string(out)
}

// TypeLive runs a command that runs until Ctrl-C, and sends Ctrl-C when its output passes met. The command must then
// succeed.
func (d *Desk) TypeLive(line string, met func(out string) error) {
	d.t.Helper()
	out, err := os.CreateTemp(d.dir, "live-")
	if err != nil {
		d.t.Fatal(err)
	}
	defer out.Close()
	ctx, cancel := context.WithCancel(d.t.Context())
	defer cancel() // if it is never met
	live := d.Command(ctx, "exec "+line)
	live.Stdout, live.Stderr = out, out
	if err := live.Start(); err != nil {
		d.t.Fatalf("$ %s\n%v", line, err)
	}
	var printed []byte
	d.Poll("$ "+line, func() error {
		var err error
		if printed, err = os.ReadFile(out.Name()); err == nil {
			err = met(string(printed))
		}
		if err != nil {
			return fmt.Errorf("%w\n%s", err, printed)
		}
		return nil
	})
	if err := errors.Join(live.Process.Signal(os.Interrupt), live.Wait()); err != nil {
		d.t.Fatalf("$ %s\n%s\nand then Ctrl-C: %v", line, printed, err)
	}
	d.t.Logf("$ %s\n%s^C", line, printed)
}

// start runs the plane in the background, as in a second terminal.
func (d *Desk) start(line string) {
	d.t.Helper()
	log, err := os.Create(filepath.Join(d.dir, "up.log"))
	if err != nil {
		d.t.Fatal(err)
	}
	d.up = d.Command(context.Background(), "exec "+line)
	d.up.Stdout, d.up.Stderr = log, log
	if err := d.up.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.ended = make(chan error, 1)
	go func() { d.ended <- d.up.Wait() }()
	d.t.Cleanup(func() { d.end(log) })
	d.Poll("the plane is ready", func() error {
		out, err := os.ReadFile(log.Name())
		if err == nil && !regexp.MustCompile(`(?m)^ready `).Match(out) {
			err = fmt.Errorf("it says %s", out)
		}
		return err
	})
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(d.dir, ".localplane", "default", "kubeconfig"))
	if err != nil {
		d.t.Fatal(err)
	}
	if d.Client, err = kubernetes.NewForConfig(config); err != nil {
		d.t.Fatal(err)
	}
}

// end stops the plane, if no command has.
func (d *Desk) end(log *os.File) {
	err := d.up.Process.Signal(syscall.SIGINT)
	if d.down && errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	if err := errors.Join(err, <-d.ended, log.Close()); err != nil {
		d.t.Errorf("ending the plane: %v", err)
	}
	if err := CheckLogs(filepath.Join(d.dir, ".localplane", "default")); err != nil {
		d.t.Error(err)
	}
	if d.t.Failed() {
		d.t.Logf("the plane's logs are kept in %s", d.dir)
	} else if err := os.RemoveAll(d.dir); err != nil {
		d.t.Error(err)
	}
}

// Poll waits until met returns nil.
func (d *Desk) Poll(what string, met func() error) {
	d.t.Helper()
	last := errors.New("not looked at yet")
	err := wait.PollUntilContextTimeout(d.t.Context(), 300*time.Millisecond, Patience, true, func(context.Context) (bool, error) {
		last = met()
		return last == nil, nil
	})
	if err != nil {
		d.t.Fatalf("waited %s for this: %s; but %v", Patience, what, last)
	}
}
