// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// OwnThread runs a function on a thread of the operating system that nothing else runs on, and that ends with it. What
// the function does to the thread, such as moving it to other namespaces, is therefore seen nowhere else.
//
// It is never the first thread of the process: that one stands for the whole process in /proc/PID, and does not end.
func OwnThread(do func()) {
	done := make(chan struct{})
	go func() {
		// Never unlocked where it matters: a thread whose goroutine ends bound to it ends too.
		runtime.LockOSThread()
		if unix.Gettid() != os.Getpid() {
			defer close(done)
			do()
			return
		}
		// While this goroutine holds the first thread and waits, the next one gets another.
		OwnThread(do)
		runtime.UnlockOSThread()
		close(done)
	}()
	<-done
}
