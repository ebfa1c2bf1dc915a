// SPDX-License-Identifier: Apache-2.0

package view

import (
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// View shows models to a user. It is safe for concurrent use.
type View interface {
	// Show updates the picture.
	Show(m Model) error
	// Say writes a line of text above the picture.
	Say(text string) error
	// Close shows what is still pending; the last picture stays.
	Close() error
}

// quiet is the minimum time between two lines of Lines.
const quiet = time.Second

// Open returns the View for an output: a Screen for a terminal that can move its cursor, otherwise Lines. The
// environment (NO_COLOR, TERM and the locale) decides about colours and characters beyond ASCII.
func Open(out io.Writer, getenv func(string) string) View {
	file, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) || getenv("TERM") == "dumb" {
		return NewLines(out, quiet)
	}
	return NewScreen(out, OptionsFor(out, getenv))
}

// supportsUTF8 reads the locale variables in the order of POSIX. If none is set, it assumes UTF-8: containers rarely
// set a locale, and most terminals support UTF-8.
func supportsUTF8(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if value := strings.ToLower(getenv(name)); value != "" {
			return strings.Contains(value, "utf-8") || strings.Contains(value, "utf8")
		}
	}
	return true
}
