// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// namespace is a network namespace other than that of this process.
type namespace struct {
	there, here *os.File
}

func openNamespace(path string) (*namespace, error) {
	there, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the network namespace outside: %w", err)
	}
	here, err := os.Open("/proc/self/ns/net")
	if err != nil {
		there.Close()
		return nil, fmt.Errorf("opening the network namespace of this process: %w", err)
	}
	return &namespace{there: there, here: here}, nil
}

func (n *namespace) close() { _ = errors.Join(n.there.Close(), n.here.Close()) }

// listen opens a port there.
func (n *namespace) listen(on netip.AddrPort) (l net.Listener, err error) {
	err = n.do(func() (err error) {
		l, err = listenHere(on)
		return err
	})
	return l, err
}

// dial makes a connection there.
func (n *namespace) dial(ctx context.Context, to netip.AddrPort) (conn net.Conn, err error) {
	err = n.do(func() (err error) {
		conn, err = dialHere(ctx, to)
		return err
	})
	return conn, err
}

// do calls f on a thread that is there for as long as f takes. What f starts in other goroutines is not there.
func (n *namespace) do(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if err := unix.Setns(int(n.there.Fd()), unix.CLONE_NEWNET); err != nil {
			runtime.UnlockOSThread() // it has stayed where it was
			done <- fmt.Errorf("entering the network namespace outside (this takes root): %w", err)
			return
		}
		err := f()
		// A thread that cannot come back stays locked, and ends with this goroutine.
		if unix.Setns(int(n.here.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}
