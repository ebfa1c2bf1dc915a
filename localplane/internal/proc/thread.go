// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// OwnThread runs a function on its own operating system thread, which ends with the function. So changes of the thread,
// such as entering other namespaces, have no effect elsewhere.
//
// It is never the first thread of the process: that one represents the process in /proc/PID, and does not end.
func OwnThread(do func()) {
	done := make(chan struct{})
	go func() {
		// Not unlocked on purpose: a thread ends with a goroutine that is still locked to it.
		runtime.LockOSThread()
		if unix.Gettid() != os.Getpid() {
			defer close(done)
			do()
			return
		}
		// While this goroutine holds the first thread and waits, the next one gets another thread.
		OwnThread(do)
		runtime.UnlockOSThread()
		close(done)
	}()
	<-done
}
