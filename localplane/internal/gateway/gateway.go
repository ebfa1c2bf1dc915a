// SPDX-License-Identifier: Apache-2.0

// Package gateway is the only connection between the machine and the network of a plane's real nodes.
//
// That network has no uplink: it is a network namespace ("inside") that the machine's own namespace ("outside") cannot
// reach. The gateway runs inside, and makes three connections possible, each to one destination:
//
//   - nodes reach the API server: a TCP port inside, forwarded to the API server on loopback outside;
//   - the API server and tests reach nodes and pods: HTTP CONNECT over a Unix socket, to addresses inside;
//   - users reach the registry: a TCP port on loopback outside, forwarded to the registry inside.
//
// A socket always belongs to the network namespace of the thread that created it. So the gateway only creates sockets
// outside, on threads that enter that namespace for a moment (namespace), and uses the sockets on any thread.
package gateway

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"everynode.dev/everynode/localplane/internal/home"
)

// Options are the addresses that the gateway connects. All are IP addresses with a port.
type Options struct {
	// APIServer is the API server's address outside; Listen is where nodes reach it inside.
	APIServer, Listen string
	// Socket is the path of the Unix socket for HTTP CONNECT to addresses inside.
	Socket string
	// Reach are the address ranges inside that HTTP CONNECT may reach.
	Reach []string
	// Registry is the registry's address inside; RegistryListen is its address for users outside.
	Registry, RegistryListen string
	// OutsideNetns is the file of the network namespace outside: /proc/PID/ns/net of a process outside.
	OutsideNetns string
	// ReadyFile gets the pid of this process when everything is open; it is optional.
	ReadyFile string
}

// dialTimeout is the connection timeout, the same as in the API server.
const dialTimeout = 30 * time.Second

// dialer connects to one target.
type dialer func(ctx context.Context, to netip.AddrPort) (net.Conn, error)

// Run serves until ctx ends; then it closes all connections. It must run inside.
func Run(ctx context.Context, o Options) error {
	a, err := o.parse()
	if err != nil {
		return err
	}
	outside, err := openNamespace(o.OutsideNetns)
	if err != nil {
		return err
	}
	defer outside.close()
	g, err := open(a, o.Socket, outside)
	if err != nil {
		return err
	}
	defer g.close()
	if o.ReadyFile != "" {
		if err := home.WriteFile(o.ReadyFile, []byte(strconv.Itoa(os.Getpid())+"\n")); err != nil {
			return err
		}
		defer os.Remove(o.ReadyFile)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return forward(ctx, g.apiServer, a.apiServer, outside.dial) })
	group.Go(func() error { return forward(ctx, g.registry, a.registry, dialHere) })
	group.Go(func() error { return serveConnect(ctx, g.connect, a.reach) })
	return group.Wait()
}

// listeners are the three listeners.
type listeners struct {
	apiServer, registry, connect net.Listener
}

func open(a addresses, socket string, outside *namespace) (*listeners, error) {
	var l listeners
	var err error
	if l.apiServer, err = listenHere(a.listen); err != nil {
		return nil, fmt.Errorf("opening the way from the nodes to the API server: %w", err)
	}
	if l.registry, err = outside.listen(a.registryListen); err != nil {
		l.close()
		return nil, fmt.Errorf("opening the way to the registry: %w", err)
	}
	if l.connect, err = home.ListenSocket(socket); err != nil {
		l.close()
		return nil, fmt.Errorf("opening the way to the nodes: %w", err)
	}
	return &l, nil
}

func (l *listeners) close() {
	for _, one := range []net.Listener{l.apiServer, l.registry, l.connect} {
		if one != nil {
			_ = one.Close() // those that have served are closed a second time
		}
	}
}

// addresses are the parsed options.
type addresses struct {
	apiServer, listen, registry, registryListen netip.AddrPort
	reach                                       []netip.Prefix
}

func (o Options) parse() (addresses, error) {
	var a addresses
	for _, f := range []struct {
		name, text string
		to         *netip.AddrPort
	}{
		{"the API server's address", o.APIServer, &a.apiServer},
		{"the address on which nodes reach the API server", o.Listen, &a.listen},
		{"the registry's address", o.Registry, &a.registry},
		{"the address on which the registry is reached from outside", o.RegistryListen, &a.registryListen},
	} {
		addr, err := netip.ParseAddrPort(f.text)
		if err != nil {
			return a, fmt.Errorf("%s is %q: give an IP address and a port, such as 127.0.0.1:6443", f.name, f.text)
		}
		*f.to = addr
	}
	for _, text := range o.Reach {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return a, fmt.Errorf("the range of reachable addresses is %q: give one such as 10.77.0.0/24", text)
		}
		a.reach = append(a.reach, p.Masked())
	}
	if len(a.reach) == 0 {
		return a, fmt.Errorf("there is no range of reachable addresses: give one such as 10.77.0.0/24")
	}
	if o.Socket == "" || o.OutsideNetns == "" {
		return a, fmt.Errorf("the path of the socket (%q) and that of the network namespace outside (%q) are both needed", o.Socket, o.OutsideNetns)
	}
	return a, nil
}

// listenHere listens in the network namespace of the calling thread.
func listenHere(on netip.AddrPort) (net.Listener, error) {
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(on))
	if err != nil {
		return nil, err // not l: a nil *TCPListener is not a nil Listener
	}
	return l, nil
}

// dialHere connects from the network namespace of the calling thread. The address is not a name, so there is no lookup,
// which could create the socket on another thread.
func dialHere(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout}
	return d.DialContext(ctx, "tcp", to.String())
}
