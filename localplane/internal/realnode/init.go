// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// NodeNamespaces are the flags of the new namespaces in which RunInit must be started.
const NodeNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC

// InitOptions are the flags of the component that is the first process of a node.
type InitOptions struct {
	// Name is the name of the node and its host name.
	Name string
	// Root is the directory of the node's disk, which persists when the node is off.
	Root string
	// ReadyFile is written when the node is ready.
	ReadyFile string
	// Keep are directories that must be visible in the node at their usual paths although the node has its own parent
	// directory (/run, /var/lib). Root and the directory of this program are always kept.
	Keep []string
}

// RunInit is the first process of a node: it mounts the file systems, sets the host name, and then reaps orphaned
// processes until it ends. All processes and mounts of the node end with it.
func RunInit(ctx context.Context, o InitOptions) error {
	if os.Getpid() != 1 {
		return errors.New("this component is the first process of a node and was started as another one; only localplane up starts it")
	}
	if _, ok := Number(o.Name); !ok {
		return fmt.Errorf("name %q: a real node is called %s to %s", o.Name, Name(1), Name(Max))
	}
	if !filepath.IsAbs(o.Root) {
		return fmt.Errorf("root %q: give the absolute path of the node's disk", o.Root)
	}
	// Registered first, so that no end of a child is missed.
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)
	defer signal.Stop(children)

	// Opened now, because the node may have its own directory at this path.
	readyDir, err := os.OpenRoot(filepath.Dir(o.ReadyFile))
	if err != nil {
		return fmt.Errorf("opening the directory of the ready file: %w", err)
	}
	defer readyDir.Close()
	if err := becomeNode(o); err != nil {
		return err
	}
	if err := readyDir.WriteFile(filepath.Base(o.ReadyFile), nil, 0o600); err != nil {
		return fmt.Errorf("saying that %s is ready: %w", o.Name, err)
	}
	reap(ctx, children)
	return nil
}

func becomeNode(o InitOptions) error {
	if err := mountAll(o); err != nil {
		return fmt.Errorf("mounting the file systems of %s: %w", o.Name, err)
	}
	if err := unix.Sethostname([]byte(o.Name)); err != nil {
		return fmt.Errorf("taking the host name %s: %w", o.Name, err)
	}
	if err := linkUp(loopback); err != nil {
		return err
	}
	return setNetwork("ip_forward", "1")
}

// reap reaps the orphaned processes of the node, which become children of this process.
func reap(ctx context.Context, children <-chan os.Signal) {
	for {
		for {
			pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if pid <= 0 || err != nil {
				break
			}
		}
		select {
		case <-children:
		case <-ctx.Done():
			return
		}
	}
}
