// SPDX-License-Identifier: Apache-2.0

package home

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

// ListenSocket listens on a Unix socket in the home. An existing socket was left by a killed process, because only the
// holder of the lock listens.
func ListenSocket(socket string) (net.Listener, error) {
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("opening the socket %s: %w", socket, err)
	}
	dir, err := os.Open(filepath.Dir(socket))
	if err != nil {
		return nil, fmt.Errorf("opening the socket %s: %w", socket, err)
	}
	l, err := net.Listen("unix", shortPath(dir, socket))
	if err != nil {
		dir.Close()
		return nil, fmt.Errorf("opening the socket %s: %w", socket, err)
	}
	return &socketListener{Listener: l, dir: dir}, nil
}

// DialSocket connects to a Unix socket in the home.
func DialSocket(ctx context.Context, socket string) (net.Conn, error) {
	dir, err := os.Open(filepath.Dir(socket))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var d net.Dialer
	return d.DialContext(ctx, "unix", shortPath(dir, socket))
}

// socketListener keeps the directory open, because the listener removes the socket through it.
type socketListener struct {
	net.Listener
	dir *os.File
}

func (l *socketListener) Close() error { return errors.Join(l.Listener.Close(), l.dir.Close()) }

// shortPath returns another path of the socket. The address of a Unix socket is limited to 108 bytes, which the path of
// a home may exceed; a path through the open directory is always short enough.
func shortPath(dir *os.File, socket string) string {
	return filepath.Join("/proc/self/fd", strconv.Itoa(int(dir.Fd())), filepath.Base(socket))
}
