// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"everynode.dev/everynode/localplane/internal/home"
)

// deadline ends a test that hangs; none takes a second.
const deadline = 30 * time.Second

// start runs something until the test ends, and sees that it ends well.
func start(t *testing.T, f func(ctx context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			select {
			case err := <-done:
				if err != nil {
					t.Errorf("it ended with %v", err)
				}
			case <-time.After(deadline):
				t.Error("it does not end")
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func address(l net.Listener) netip.AddrPort { return netip.MustParseAddrPort(l.Addr().String()) }

func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(deadline)); err != nil {
		t.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

// answerAtEnd reads everything that a client says, and answers only then: it takes a connection that is closed by halves.
func answerAtEnd(l net.Listener, name string) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			said, err := io.ReadAll(conn)
			if err == nil {
				fmt.Fprintf(conn, "%s: %s", name, said)
			}
		}()
	}
}

// ask says something, says that this was all, and reads the answer to its end.
func ask(conn interface {
	io.ReadWriter
	CloseWrite() error
}, text string) (string, error) {
	if _, err := io.WriteString(conn, text); err != nil {
		return "", err
	}
	if err := conn.CloseWrite(); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}

func TestManyConnectionsAreForwarded(t *testing.T) {
	target, way := listen(t), listen(t)
	go answerAtEnd(target, "target")
	start(t, func(ctx context.Context) error { return forward(ctx, way, address(target), dialHere) })
	var all sync.WaitGroup
	for i := range 200 {
		conn := dial(t, way.Addr().String())
		all.Go(func() {
			text := strings.Repeat(fmt.Sprintf("question %d ", i), 10_000)
			if answer, err := ask(conn, text); err != nil || answer != "target: "+text {
				t.Errorf("connection %d: got %d bytes and %v, want %d bytes", i, len(answer), err, len("target: "+text))
			}
		})
	}
	all.Wait()
}

func TestNobodyWaitsForATargetThatIsDown(t *testing.T) {
	target, way := listen(t), listen(t)
	to := address(target)
	target.Close()
	start(t, func(ctx context.Context) error { return forward(ctx, way, to, dialHere) })
	// Who comes may be sent away so soon that this is seen as a connection that failed.
	if conn, err := net.Dial("tcp", way.Addr().String()); err == nil {
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(deadline)); err != nil {
			t.Fatal(err)
		}
		if n, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("read %d bytes and %v from a target that is down", n, err)
		}
	}
	// It is there again: the way was never closed.
	again, err := net.Listen("tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	go answerAtEnd(again, "again")
	if answer, err := ask(dial(t, way.Addr().String()), "hello"); err != nil || answer != "again: hello" {
		t.Errorf("got %q and %v", answer, err)
	}
}

func TestABrokenConnectionIsNotTakenForAWholeOne(t *testing.T) {
	target, way := listen(t), listen(t)
	start(t, func(ctx context.Context) error { return forward(ctx, way, address(target), dialHere) })
	client := dial(t, way.Addr().String())
	served, err := target.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(served.(*net.TCPConn).SetLinger(0), served.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("the target broke off, and the client has read %v", err)
	}
}

func TestTheEndCutsConnections(t *testing.T) {
	target, way := listen(t), listen(t)
	stop := start(t, func(ctx context.Context) error { return forward(ctx, way, address(target), dialHere) })
	client := dial(t, way.Addr().String())
	served, err := target.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer served.Close()
	stop()
	for name, conn := range map[string]net.Conn{"client": client, "target": served} {
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Errorf("the %s can still read", name)
		}
	}
	if conn, err := net.Dial("tcp", way.Addr().String()); err == nil {
		conn.Close()
		t.Error("the way is still open")
	}
}

// tunnelTo asks as the API server's egress selector does.
func tunnelTo(t *testing.T, socket, to, early string) (conn *net.UnixConn, status int) {
	t.Helper()
	c, err := home.DialSocket(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	conn = c.(*net.UnixConn)
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(deadline)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n%s", to, early)
	read := bufio.NewReader(conn)
	answer, err := http.ReadResponse(read, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	if answer.StatusCode == http.StatusOK && read.Buffered() > 0 {
		t.Errorf("%d bytes came before anything was asked: the API server refuses such a tunnel", read.Buffered())
	}
	return conn, answer.StatusCode
}

func connectServer(t *testing.T, reach string) (socket string, stop func()) {
	t.Helper()
	// Longer than the address of a socket may be.
	socket = filepath.Join(t.TempDir(), strings.Repeat("long", 20), "egress.sock")
	l := listenSocket(t, socket)
	stop = start(t, func(ctx context.Context) error {
		return serveConnect(ctx, l, []netip.Prefix{netip.MustParsePrefix(reach)})
	})
	return socket, stop
}

func TestConnectReachesNodes(t *testing.T) {
	kubelet := listen(t)
	go answerAtEnd(kubelet, "kubelet")
	socket, _ := connectServer(t, "127.0.0.0/8")
	conn, status := tunnelTo(t, socket, kubelet.Addr().String(), "")
	if status != http.StatusOK {
		t.Fatalf("the answer is %d", status)
	}
	if text, err := ask(conn, "logs"); err != nil || text != "kubelet: logs" {
		t.Errorf("got %q and %v", text, err)
	}
}

func TestConnectKeepsWhatIsSaidEarly(t *testing.T) {
	kubelet := listen(t)
	go answerAtEnd(kubelet, "kubelet")
	socket, _ := connectServer(t, "127.0.0.0/8")
	conn, _ := tunnelTo(t, socket, kubelet.Addr().String(), "early ")
	if text, err := ask(conn, "late"); err != nil || text != "kubelet: early late" {
		t.Errorf("got %q and %v", text, err)
	}
}

func TestConnectRefuses(t *testing.T) {
	const gone = "127.0.0.1:1" // no ephemeral port: the port of a listener that was closed may have been given to another program
	outside := listen(t)
	socket, _ := connectServer(t, "127.0.0.0/31")
	for to, want := range map[string]int{
		"127.0.0.2:80":                    http.StatusForbidden,
		"192.0.2.1:80":                    http.StatusForbidden,
		"[::ffff:127.0.0.1]:80":           http.StatusForbidden,
		"localhost:80":                    http.StatusForbidden,
		"127.0.0.1":                       http.StatusForbidden,
		gone:                              http.StatusBadGateway,
		outside.Addr().String() + "/path": http.StatusForbidden,
	} {
		if _, status := tunnelTo(t, socket, to, ""); status != want {
			t.Errorf("CONNECT %s is answered with %d, want %d", to, status, want)
		}
	}
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return home.DialSocket(ctx, socket)
	}}}
	answer, err := client.Get("http://" + outside.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET is answered with %s", answer.Status)
	}
}

func TestTheEndCutsTunnels(t *testing.T) {
	kubelet := listen(t)
	socket, stop := connectServer(t, "127.0.0.0/8")
	conn, _ := tunnelTo(t, socket, kubelet.Addr().String(), "")
	stop()
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("the tunnel is still there")
	}
	if conn, err := home.DialSocket(t.Context(), socket); err == nil {
		conn.Close()
		t.Error("the socket is still there")
	}
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	good := Options{
		APIServer: "127.0.0.1:1", Listen: "127.0.0.1:0", Registry: "127.0.0.1:2", RegistryListen: "127.0.0.1:0",
		Socket: filepath.Join(t.TempDir(), "s"), Reach: []string{"10.77.0.0/24"}, OutsideNetns: "/proc/self/ns/net",
	}
	for want, change := range map[string]func(o *Options){
		"the API server's address is":                 func(o *Options) { o.APIServer = "localhost:6443" },
		"nodes reach the API server is":               func(o *Options) { o.Listen = "10.77.0.1" },
		"the registry's address is":                   func(o *Options) { o.Registry = "" },
		"the registry is reached from outside is":     func(o *Options) { o.RegistryListen = "5000" },
		"the range of reachable addresses is":         func(o *Options) { o.Reach = []string{"10.77.0.1"} },
		"there is no range of reachable addresses":    func(o *Options) { o.Reach = nil },
		"are both needed":                             func(o *Options) { o.OutsideNetns = "" },
		"opening the network namespace outside: open": func(o *Options) { o.OutsideNetns = "/proc/self/ns/nothing" },
	} {
		o := good
		change(&o)
		if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one with %q", err, want)
		}
	}
}
