// SPDX-License-Identifier: Apache-2.0

// Package gateway is the only way between the machine and the network of a plane's real nodes.
//
// That network has no uplink: it is a network namespace ("inside") of which the machine's own ("outside") sees nothing. The
// gateway runs inside, and opens three ways, each to one place:
//
//   - nodes reach the API server: a TCP port inside, forwarded to the API server on loopback outside;
//   - the API server and tests reach nodes and pods: HTTP CONNECT over a Unix socket, to addresses inside;
//   - people reach the registry: a TCP port on loopback outside, forwarded to the registry inside.
//
// A socket belongs for good to the network namespace of the thread that makes it. So all that the gateway does outside is to
// make sockets, on threads that are there for that moment (namespace); what happens with them afterwards happens anywhere.
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

// Options say what the gateway ties together. All addresses are IP addresses with a port.
type Options struct {
	// APIServer is the API server's address outside; Listen is where nodes reach it inside.
	APIServer, Listen string
	// Socket is the path of the Unix socket on which targets inside can be reached by HTTP CONNECT.
	Socket string
	// Reach are the ranges of addresses inside to which HTTP CONNECT may go.
	Reach []string
	// Registry is the registry's address inside; RegistryListen is where people reach it outside.
	Registry, RegistryListen string
	// OutsideNetns is the file of the network namespace outside: /proc/PID/ns/net of a process that is there.
	OutsideNetns string
	// ReadyFile gets this process's pid when all three ways are open; empty tells nobody.
	ReadyFile string
}

// dialTimeout is how long a target may take to answer: as long as the API server itself waits for one.
const dialTimeout = 30 * time.Second

// dialer makes a connection to one target.
type dialer func(ctx context.Context, to netip.AddrPort) (net.Conn, error)

// Run keeps the three ways open until ctx ends; then it cuts all connections. It has to run inside.
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

// listeners are the three ways in.
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
			_ = one.Close() // a second time for those that have served
		}
	}
}

// addresses are the options, read.
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

// listenHere opens a port in the network namespace of the calling thread.
func listenHere(on netip.AddrPort) (net.Listener, error) {
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(on))
	if err != nil {
		return nil, err // not l: a nil *TCPListener is not a nil Listener
	}
	return l, nil
}

// dialHere makes a connection in the network namespace of the calling thread. The address is no name, so nobody else is asked
// for it and nobody else makes the socket.
func dialHere(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout}
	return d.DialContext(ctx, "tcp", to.String())
}
