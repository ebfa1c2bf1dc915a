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

// forward connects everybody who comes to l with the target, until ctx ends. Who comes while the target does not answer is sent
// away at once.
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

// passing tells of an error of Accept whether the next one may succeed: too many connections are open, or this one has gone.
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

// join carries bytes both ways until both ends have said that there will be no more, or one has broken off, or ctx ends.
func join(ctx context.Context, a, b net.Conn) {
	defer context.AfterFunc(ctx, func() { abort(a, b) })()
	var both sync.WaitGroup
	both.Go(func() { carry(a, b) })
	both.Go(func() { carry(b, a) })
	both.Wait()
	_ = errors.Join(a.Close(), b.Close())
}

// carry copies what one end says to the other. That an end will say no more is passed on, and the other may go on talking.
func carry(to, from net.Conn) {
	if _, err := io.Copy(to, from); err != nil {
		abort(to, from)
		return
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // the other end has gone: the copy back will see that too
	}
}

// abort breaks connections off, so that nobody takes what was said so far for all.
func abort(conns ...net.Conn) {
	for _, conn := range conns {
		if t, ok := conn.(*net.TCPConn); ok {
			_ = t.SetLinger(0)
		}
		_ = conn.Close()
	}
}
