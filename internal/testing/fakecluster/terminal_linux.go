// SPDX-License-Identifier: Apache-2.0

package fakecluster

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// OpenTerminal returns both ends of a pseudo terminal of that size: what is written to the second can be read from the first.
func OpenTerminal(tb testing.TB, width, height uint16) (reader, terminal *os.File) {
	tb.Helper()
	reader, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		tb.Skipf("SKIPPED: this machine has no pseudo terminals (%v); mount devpts to run this test", err)
	}
	tb.Cleanup(func() { _ = reader.Close() })
	must := func(err error) {
		if err != nil {
			tb.Fatal(err)
		}
	}
	fd := int(reader.Fd())
	must(unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	must(err)
	Resize(tb, reader, width, height)
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	must(err)
	tb.Cleanup(func() { _ = terminal.Close() })
	return reader, terminal
}

// Resize gives a pseudo terminal another size.
func Resize(tb testing.TB, reader *os.File, width, height uint16) {
	tb.Helper()
	if err := unix.IoctlSetWinsize(int(reader.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: width, Row: height}); err != nil {
		tb.Fatal(err)
	}
}
