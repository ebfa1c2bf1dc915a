// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"fmt"
	"syscall"
)

// RaiseFileLimit raises the limit of open files to the maximum, for this process and its children, and returns the
// limit.
func RaiseFileLimit() (uint64, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("reading the limit of open files: %w", err)
	}
	limit.Cur = limit.Max
	// Set it even if it has this value already: the Go runtime raises its own limit at start, but restores the old one
	// for children unless the program sets it.
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("raising the limit of open files to %d: %w", limit.Max, err)
	}
	return limit.Cur, nil
}
