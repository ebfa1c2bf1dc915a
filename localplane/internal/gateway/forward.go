// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// forward forwards connections to l to the target until ctx ends. If the target does not respond, the connection is
// closed.
func forward(ctx context.Context, l net.Listener, to netip.AddrPort, dial dialer) error {
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	var under sync.WaitGroup
	defer under.Wait()
	for {
		from, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = from.Close()
			}
			return nil
		case err == nil:
			under.Go(func() { connect(ctx, from, to, dial) })
		case !passing(err):
			return fmt.Errorf("taking connections on %s: %w", l.Addr(), err)
		default:
			pause(ctx)
		}
	}
}

// passing reports whether Accept may succeed again after an error: there are too many open connections, or the
// connection was aborted.
func passing(err error) bool {
	for _, one := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, one) {
			return true
		}
	}
	return false
}

func pause(ctx context.Context) {
	timer := time.NewTimer(50 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func connect(ctx context.Context, from net.Conn, to netip.AddrPort, dial dialer) {
	target, err := dial(ctx, to)
	if err != nil {
		abort(from)
		return
	}
	join(ctx, from, target)
}

// join copies data in both directions until both ends have closed their writes, or one has failed, or ctx ends.
func join(ctx context.Context, a, b net.Conn) {
	defer context.AfterFunc(ctx, func() { abort(a, b) })()
	var both sync.WaitGroup
	both.Go(func() { carry(a, b) })
	both.Go(func() { carry(b, a) })
	both.Wait()
	_ = errors.Join(a.Close(), b.Close())
}

// carry copies data from one end to the other. A closed write side is passed on; the other direction may continue.
func carry(to, from net.Conn) {
	if _, err := io.Copy(to, from); err != nil {
		abort(to, from)
		return
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // the other end is closed: the copy in the other direction notices that too
	}
}

// abort resets connections, so that the data so far is not taken as complete.
func abort(conns ...net.Conn) {
	for _, conn := range conns {
		if t, ok := conn.(*net.TCPConn); ok {
			_ = t.SetLinger(0)
		}
		_ = conn.Close()
	}
}
