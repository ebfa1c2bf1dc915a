// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// serveConnect serves HTTP CONNECT, as used by the API server's egress selector, until ctx ends.
func serveConnect(ctx context.Context, l net.Listener, reach []netip.Prefix) error {
	var under sync.WaitGroup // connections of the server, and tunnels, which the server does not track
	server := &http.Server{
		ReadHeaderTimeout: 5 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				under.Add(1)
			case http.StateClosed, http.StateHijacked:
				under.Done()
			default:
			}
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			under.Add(1)
			defer under.Done()
			tunnel(w, r, reach)
		}),
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	err := server.Serve(l)
	if ctx.Err() != nil && errors.Is(err, http.ErrServerClosed) {
		under.Wait()
		return nil
	}
	return fmt.Errorf("taking connections on the socket: %w", err)
}

// tunnel serves one request; the tunnel has ended when it returns.
func tunnel(w http.ResponseWriter, r *http.Request, reach []netip.Prefix) {
	if r.Method != http.MethodConnect {
		http.Error(w, "this is the way into the network of the nodes: only CONNECT is answered here", http.StatusMethodNotAllowed)
		return
	}
	to, err := netip.ParseAddrPort(r.RequestURI)
	if err != nil || !slices.ContainsFunc(reach, func(p netip.Prefix) bool { return p.Contains(to.Addr()) }) {
		http.Error(w, fmt.Sprintf("%s is not in the network of the nodes: give an address of a node or pod, in %v, and a port", r.RequestURI, reach),
			http.StatusForbidden)
		return
	}
	target, err := dialHere(r.Context(), to)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	client, err := hijack(w)
	if err != nil {
		_ = target.Close()
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		abort(client, target)
		return
	}
	join(r.Context(), client, target)
}

// hijack takes the connection over from the server, with data that the client has sent already.
func hijack(w http.ResponseWriter) (net.Conn, error) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, fmt.Errorf("taking the connection over: %w", err)
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	early, err := buffered.Reader.Peek(buffered.Reader.Buffered())
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &earlyConn{Conn: conn, Reader: io.MultiReader(bytes.NewReader(early), conn)}, nil
}

// earlyConn is a connection with data that has been read already.
type earlyConn struct {
	net.Conn
	io.Reader
}

// Read reads that data first.
func (c *earlyConn) Read(p []byte) (int, error) { return c.Reader.Read(p) }

// CloseWrite ends the writes.
func (c *earlyConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
