// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"everynode.dev/everynode/localplane/internal/home"
)

// Dial connects to an address inside, through the socket of a running gateway.
func Dial(ctx context.Context, socket, address string) (net.Conn, error) {
	conn, err := home.DialSocket(ctx, socket)
	if err != nil {
		return nil, fmt.Errorf("reaching %s in the network of the real nodes (does the component gateway run?): %w", address, err)
	}
	// Closed if ctx ends before the response.
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	reader, err := request(conn, address)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = conn.Close() // it cannot be used
		return nil, fmt.Errorf("reaching %s in the network of the real nodes: %w", address, err)
	}
	return &dialled{Conn: conn, reader: reader}, nil
}

func request(conn net.Conn, address string) (*bufio.Reader, error) {
	asked := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{}}
	if err := asked.Write(conn); err != nil {
		return nil, err
	}
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, asked) //nolint:bodyclose // the body of an answer to CONNECT is the tunnel
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the gateway says %s", response.Status)
	}
	return reader, nil
}

// dialled is a connection whose first bytes may have been read with the response.
type dialled struct {
	net.Conn
	reader *bufio.Reader
}

// Read implements net.Conn.
func (d *dialled) Read(p []byte) (int, error) { return d.reader.Read(p) }
