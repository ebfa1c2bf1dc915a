// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"everynode.dev/everynode/localplane/internal/proc"
)

// namespace is a network namespace other than that of this process.
type namespace struct {
	file *os.File
}

func openNamespace(path string) (*namespace, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the network namespace outside: %w", err)
	}
	return &namespace{file: f}, nil
}

func (n *namespace) close() { _ = n.file.Close() }

// listen listens in the namespace.
func (n *namespace) listen(on netip.AddrPort) (l net.Listener, err error) {
	err = n.do(func() (err error) {
		l, err = listenHere(on)
		return err
	})
	return l, err
}

// dial connects from the namespace.
func (n *namespace) dial(ctx context.Context, to netip.AddrPort) (conn net.Conn, err error) {
	err = n.do(func() (err error) {
		conn, err = dialHere(ctx, to)
		return err
	})
	return conn, err
}

// do calls f on a thread in the namespace, which ends with f. Goroutines that f starts are not in the namespace.
func (n *namespace) do(f func() error) (err error) {
	proc.OwnThread(func() {
		if err = unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
			err = fmt.Errorf("entering the network namespace outside (this takes root): %w", err)
			return
		}
		err = f()
	})
	return err
}
