// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Within calls f on a thread in the namespaces of a process, and waits for it. What f opens, such as a connection, can
// be used anywhere afterwards. f must not start goroutines for its work.
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
