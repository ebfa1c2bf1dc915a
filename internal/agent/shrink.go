// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"k8s.io/klog/v2"
)

// How long after its start the agent lets go of the program for the first time, and how often after that.
const (
	shrinkFirst = 5 * time.Second
	shrinkEvery = 10 * time.Minute
)

// shrink lets go, now and then, of the pages of the program file that are mapped: most of them were needed for the start alone. Those that are
// needed again come from the page cache. It works until ctx ends.
func shrink(ctx context.Context) {
	for wait := shrinkFirst; ; wait = shrinkEvery {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		if err := letGo(); err != nil {
			klog.V(2).InfoS("The pages of the program stay in memory", "why", err)
		}
	}
}

// letGo unmaps what cannot be written of the program file: it is the same there as in memory.
func letGo() error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return err
	}
	defer maps.Close()
	for _, m := range mappings(maps, program) {
		if _, _, errno := syscall.Syscall(syscall.SYS_MADVISE, m.start, m.end-m.start, syscall.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("letting go of %x-%x: %w", m.start, m.end, errno)
		}
	}
	return nil
}

// mapping is a range of addresses.
type mapping struct{ start, end uintptr }

// mappings are those of a file that are only read or run, as /proc/PID/maps lists them. What cannot be read is none.
func mappings(maps io.Reader, file string) []mapping {
	var found []mapping
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) != 6 || fields[5] != file || strings.Contains(fields[1], "w") || !strings.HasSuffix(fields[1], "p") {
			continue
		}
		var m mapping
		if n, err := fmt.Sscanf(fields[0], "%x-%x", &m.start, &m.end); err == nil && n == 2 && m.start < m.end {
			found = append(found, m)
		}
	}
	return found
}
