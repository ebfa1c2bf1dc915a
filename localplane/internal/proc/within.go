// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Within calls f on a thread that is in the namespaces of a process, and waits for it. What f opens stays where it was
// opened: a connection made there is good here. f must not leave its goroutine.
func Within(pid int, f func() error) (err error) {
	OwnThread(func() {
		if err = unix.Unshare(unix.CLONE_FS); err != nil {
			err = fmt.Errorf("giving a thread a root directory of its own: %w", err)
			return
		}
		v, entryErr := enter(pid)
		if err = entryErr; err == nil {
			defer closeAll(v.home)
			err = f()
		}
	})
	return err
}
