// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"everynode.dev/everynode/localplane/internal/proc"
)

// roleVariable makes the test binary one of the processes of a plane.
const roleVariable = "REALNODE_TEST_ROLE"

func TestMain(m *testing.M) {
	role := os.Getenv(roleVariable)
	if role == "" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := play(ctx, role, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func play(ctx context.Context, role string, args []string) error {
	switch role {
	case "supervisor":
		return supervise(args[0])
	case "network":
		return RunNetwork(ctx, NetworkOptions{ReadyFile: args[0]})
	case "node":
		return RunInit(ctx, InitOptions{Name: args[0], Root: args[1], ReadyFile: args[2], Keep: args[3:]})
	case "serve":
		return serve(args[0], args[1])
	case "dial":
		return dial(args[0])
	case "box":
		fmt.Print(strings.Join(args, " "))
		if len(args) == 0 {
			<-ctx.Done()
		}
		return nil
	default:
		return fmt.Errorf("no role %q", role)
	}
}

// supervise starts a network and a node with a program in it, tells their pids and waits to be killed.
func supervise(dir string) error {
	spawner := proc.NewSpawner()
	start := func(c proc.Command, role string, args ...string) (int, error) {
		c.Path, c.Args, c.Env, c.Output = os.Args[0], args, append(os.Environ(), roleVariable+"="+role), os.Stderr
		p, err := spawner.Start(c)
		if err != nil {
			return 0, err
		}
		return p.PID, nil
	}
	network, err1 := start(proc.Command{Unshare: unix.CLONE_NEWNET}, "network", filepath.Join(dir, "network"))
	node, err2 := start(proc.Command{Unshare: NodeNamespaces}, "node", Name(1), filepath.Join(dir, "disk"), filepath.Join(dir, "node"))
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	for !exists(filepath.Join(dir, "network")) || !exists(filepath.Join(dir, "node")) {
		time.Sleep(10 * time.Millisecond)
	}
	if err := (Links{Network: network}).Plug(node, 1); err != nil {
		return err
	}
	inside, err := start(proc.Command{Inside: node}, "box")
	if err != nil {
		return err
	}
	fmt.Println(network, node, inside)
	select {}
}

// serve answers everybody with the host's name, and writes a file once it can.
func serve(address, ready string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	if err := os.WriteFile(ready, nil, 0o600); err != nil {
		return err
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		host, err := os.Hostname()
		if err != nil {
			return err
		}
		fmt.Fprint(conn, host)
		_ = conn.Close()
	}
}

func dial(address string) error {
	const patience = 4 * time.Second
	conn, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err = io.Copy(os.Stdout, conn)
	return err
}

// plane is a network with nodes.
type plane struct {
	t       *testing.T
	dir     string
	spawner *proc.Spawner
	network *proc.Process
	nodes   map[int]*proc.Process
}

func needMachines(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED: this starts processes in namespaces; run without -short")
	}
	missing := &MissingError{}
	if privileged(missing) {
		tryKernel(t.TempDir(), "", missing)
	}
	if len(missing.Missing) > 0 {
		t.Skipf("SKIPPED: %v", missing)
	}
}

func newPlane(t *testing.T) *plane {
	t.Helper()
	needMachines(t)
	p := &plane{t: t, dir: t.TempDir(), spawner: proc.NewSpawner(), nodes: map[int]*proc.Process{}}
	t.Cleanup(p.spawner.Close)
	ready := p.path("network.ready")
	p.network = p.start(proc.Command{Unshare: unix.CLONE_NEWNET}, "network", ready)
	p.await(p.network, "the network", func() bool { return exists(ready) })
	return p
}

func (p *plane) path(name string) string { return filepath.Join(p.dir, name) }

func (p *plane) links() Links { return Links{Network: p.network.PID} }

// start starts this test binary in another role; it ends with the test.
func (p *plane) start(c proc.Command, role string, args ...string) *proc.Process {
	p.t.Helper()
	c.Path, c.Args, c.Env = os.Args[0], args, append(os.Environ(), roleVariable+"="+role)
	if c.Output == nil {
		c.Output = os.Stderr
	}
	started, err := p.spawner.Start(c)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = started.Kill() })
	return started
}

func (p *plane) startNode(n int) *proc.Process {
	p.t.Helper()
	ready := p.path(Name(n) + ".ready")
	_ = os.Remove(ready)
	node := p.start(proc.Command{Unshare: NodeNamespaces}, "node", Name(n), p.path(Name(n)), ready)
	p.await(node, Name(n), func() bool { return exists(ready) })
	if err := p.links().Plug(node.PID, n); err != nil {
		p.t.Fatal(err)
	}
	p.nodes[n] = node
	return node
}

// startProgram starts a program in node 1; it ends with the test.
func (p *plane) startProgram(path string, args ...string) *proc.Process {
	p.t.Helper()
	// Into a file: through a pipe, whoever inherits it would keep the program from having ended.
	log, err := os.Create(p.path(filepath.Base(path) + ".log"))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		_ = log.Close()
		if raw, err := os.ReadFile(log.Name()); p.t.Failed() && err == nil {
			p.t.Logf("%s:\n%s", log.Name(), raw)
		}
	})
	started, err := p.spawner.Start(proc.Command{Path: path, Args: args, Output: log, Inside: p.nodes[1].PID})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = started.Kill() })
	return started
}

// await waits for a condition while the process that is to bring it about runs.
func (p *plane) await(by *proc.Process, what string, condition func() bool) {
	p.t.Helper()
	for deadline := time.Now().Add(time.Minute); !condition(); time.Sleep(10 * time.Millisecond) {
		if by != nil && by.Ended() {
			p.t.Fatalf("%s: the process ended: %s", what, by.ExitReason())
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("%s: not within a minute", what)
		}
	}
}

// run runs a program inside a process's namespaces and returns what it writes.
func (p *plane) run(inside int, name string, args ...string) (string, error) {
	return p.finish(proc.Command{Path: name, Args: args, Inside: inside})
}

// dial asks a server from within a process's namespaces who it is.
func (p *plane) dial(inside int, address string) (string, error) {
	return p.finish(proc.Command{Path: os.Args[0], Args: []string{address}, Env: append(os.Environ(), roleVariable+"=dial"), Inside: inside})
}

func (p *plane) finish(c proc.Command) (string, error) {
	var out bytes.Buffer
	c.Output = &out
	started, err := p.spawner.Start(c)
	if err != nil {
		return "", err
	}
	<-started.Done()
	text := strings.TrimSpace(out.String())
	if started.ExitReason() != "exit status 0" {
		return "", errors.New(started.ExitReason() + ": " + text)
	}
	return text, nil
}

// shell runs a script in a node and returns what it writes; it has to succeed.
func (p *plane) shell(n int, script string) string {
	p.t.Helper()
	out, err := p.run(p.nodes[n].PID, "/bin/sh", "-ec", script)
	if err != nil {
		p.t.Fatalf("in %s: %s: %v", Name(n), script, err)
	}
	return out
}

// machine is what a plane must not change.
type machine struct {
	mounts, hostname, links string
	sysctls                 map[string]string
	// opt is whether there is the directory that a containerd makes unless it is told not to.
	opt bool
}

// kubeletSysctls are what a kubelet sets on a machine (setupKernelTunables in pkg/kubelet/cm), whatever nodes have over it.
func kubeletSysctls() []string {
	return []string{
		"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
	}
}

func lookAtMachine(t *testing.T) machine {
	t.Helper()
	read := func(path string) string {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	m := machine{mounts: read("/proc/self/mountinfo"), hostname: read("/proc/sys/kernel/hostname"), sysctls: map[string]string{}, opt: exists("/opt/containerd")}
	for _, name := range append(kubeletSysctls(), "net/ipv4/ip_forward", "net/ipv4/conf/all/send_redirects") {
		if path := filepath.Join("/proc/sys", name); exists(path) {
			m.sysctls[name] = read(path)
		}
	}
	if len(m.sysctls) == 0 {
		t.Fatal("no setting of the machine was found")
	}
	links, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		m.links += link.Name + " "
	}
	return m
}

// expectSame compares the machine with what it was before.
func (m machine) expectSame(t *testing.T) {
	t.Helper()
	if now := lookAtMachine(t); !reflect.DeepEqual(now, m) {
		t.Errorf("the machine was changed:\n%+v\nbefore:\n%+v", now, m)
	}
}
