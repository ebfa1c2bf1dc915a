// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"everynode.dev/everynode/localplane/internal/home"
)

// insideVariable makes this program the gateway of a test, in a network namespace of its own.
const insideVariable = "EVERYNODE_TEST_GATEWAY_INSIDE"

const (
	gatewayInside  = "10.77.0.1:6443"
	registryInside = "10.77.0.1:5000"
	kubeletInside  = "10.77.0.11:10250"
)

func TestMain(m *testing.M) {
	if os.Getenv(insideVariable) == "" {
		os.Exit(m.Run())
	}
	if err := inside(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// inside is the network of the nodes, with a gateway, a registry and a kubelet in it. All of it ends when standard input does.
func inside(args []string) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	addr, err := netlink.ParseAddr("10.77.0.1/24")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return err
	}
	if err := netlink.AddrAdd(lo, addr); err != nil {
		return err
	}
	for name, on := range map[string]string{"registry": registryInside, "kubelet": kubeletInside} {
		l, err := net.Listen("tcp", on)
		if err != nil {
			return err
		}
		go answerAtEnd(l, name)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return Run(ctx, Options{
		APIServer: args[0], RegistryListen: args[1], Socket: args[2], ReadyFile: args[3],
		Listen: gatewayInside, Registry: registryInside, Reach: []string{"10.77.0.0/24", "10.78.0.0/16"},
		OutsideNetns: fmt.Sprintf("/proc/%d/ns/net", os.Getppid()),
	})
}

// plane starts the gateway in a network namespace of its own, and waits until it is ready.
func plane(t *testing.T, apiServer string) (registry, socket string, gateway *exec.Cmd) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: network namespaces take root; run this test with sudo")
	}
	free := listen(t)
	registry = free.Addr().String()
	free.Close()
	dir := t.TempDir()
	socket = filepath.Join(dir, "egress.sock")
	ready := filepath.Join(dir, "ready")
	gateway = exec.CommandContext(t.Context(), os.Args[0], apiServer, registry, socket, ready)
	gateway.Env = append(os.Environ(), insideVariable+"=1")
	gateway.Stderr = os.Stderr
	gateway.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	gateway.Cancel = func() error { return gateway.Process.Signal(syscall.SIGTERM) }
	if err := gateway.Start(); err != nil {
		t.Skipf("SKIPPED: a process with a network namespace of its own cannot be started here (%v); this takes CAP_SYS_ADMIN and CAP_NET_ADMIN", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- gateway.Wait() }()
	t.Cleanup(func() {
		// t.Context has ended before cleanups begin, and is what is wrong with a gateway that has ended well.
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the gateway ended with %v", err)
		}
		for _, file := range []string{socket, ready} {
			if _, err := os.Stat(file); err == nil {
				t.Errorf("the gateway has left %s", filepath.Base(file))
			}
		}
	})
	for begin := time.Now(); ; {
		if pid, err := os.ReadFile(ready); err == nil {
			if strings.TrimSpace(string(pid)) != strconv.Itoa(gateway.Process.Pid) {
				t.Fatalf("the ready file holds %q, want %d", pid, gateway.Process.Pid)
			}
			return registry, socket, gateway
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("the gateway is not ready and has ended: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
		if time.Since(begin) > deadline {
			t.Fatal("the gateway does not get ready")
		}
	}
}

func TestBothWaysBetweenNamespaces(t *testing.T) {
	apiServer := listen(t)
	go answerAtEnd(apiServer, "API server")
	registry, socket, gateway := plane(t, apiServer.Addr().String())
	here, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	there, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", gateway.Process.Pid))
	if err != nil || here == there {
		t.Fatalf("the gateway is in %s (%v) as this test is", there, err)
	}

	var all sync.WaitGroup
	for i := range 50 {
		question := fmt.Sprintf("question %d", i)
		toRegistry := dial(t, registry)
		toKubelet, kubelet := tunnelTo(t, socket, kubeletInside, "")
		// From inside to outside: a connection that begins inside, as those of nodes do.
		toServer, server := tunnelTo(t, socket, gatewayInside, "")
		for name, status := range map[string]int{"kubelet": kubelet, "API server": server} {
			if status != http.StatusOK {
				t.Fatalf("the tunnel to the %s is answered with %d", name, status)
			}
		}
		for name, conn := range map[string]interface {
			net.Conn
			CloseWrite() error
		}{"registry": toRegistry, "kubelet": toKubelet, "API server": toServer} {
			all.Go(func() {
				if text, err := ask(conn, question); err != nil || text != name+": "+question {
					t.Errorf("the %s answers %q and %v", name, text, err)
				}
			})
		}
	}
	all.Wait()
	if _, status := tunnelTo(t, socket, apiServer.Addr().String(), ""); status != http.StatusForbidden {
		t.Errorf("CONNECT to loopback is answered with %d", status)
	}
}

func TestGatewayOutlivesTheAPIServer(t *testing.T) {
	first := listen(t)
	_, socket, _ := plane(t, first.Addr().String())
	first.Close()
	// The tunnel leads to the gateway itself, which finds nobody and breaks off, perhaps before the tunnel is there.
	conn, status := tunnelTo(t, socket, gatewayInside, "")
	if status == http.StatusOK {
		if _, err := conn.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
			t.Errorf("reading from an API server that is down: %v", err)
		}
	}
	again, err := net.Listen("tcp", first.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	go answerAtEnd(again, "API server")
	conn, _ = tunnelTo(t, socket, gatewayInside, "")
	if text, err := ask(conn, "hello"); err != nil || text != "API server: hello" {
		t.Errorf("got %q and %v", text, err)
	}
}

func listenSocket(t *testing.T, socket string) net.Listener {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := home.ListenSocket(socket)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
