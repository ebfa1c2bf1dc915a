// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"fmt"
	"syscall"
)

// RaiseFileLimit lifts this process's limit of open files to what it may have at most, for itself and for what it starts,
// and returns the limit.
func RaiseFileLimit() (uint64, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("reading the limit of open files: %w", err)
	}
	limit.Cur = limit.Max
	// Set even when it is there already: the Go runtime raises its own limit at start but hands the old one to its
	// children unless the program sets it itself.
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("raising the limit of open files to %d: %w", limit.Max, err)
	}
	return limit.Cur, nil
}
