// SPDX-License-Identifier: Apache-2.0

package view

import (
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// View shows models to a person. It may be used by several goroutines.
type View interface {
	// Show brings the picture up to date.
	Show(m Model) error
	// Say writes a line of text that stays; the picture stays below it.
	Say(text string) error
	// Close shows what has not been shown yet and leaves the last picture where it is.
	Close() error
}

// quiet is how long Lines waits at least between two lines.
const quiet = time.Second

// Open returns the View that fits to where the output goes: a Screen for a terminal that can move its cursor, else Lines.
// The environment says whether colours and characters beyond ASCII are wanted (NO_COLOR, TERM and the locale).
func Open(out io.Writer, getenv func(string) string) View {
	file, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) || getenv("TERM") == "dumb" {
		return NewLines(out, quiet)
	}
	return NewScreen(out, OptionsFor(out, getenv))
}

// supportsUTF8 reads the locale in the order that POSIX gives; a locale that is not set at all is taken for UTF-8, as
// containers rarely set one and terminals rarely speak anything else.
func supportsUTF8(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if value := strings.ToLower(getenv(name)); value != "" {
			return strings.Contains(value, "utf-8") || strings.Contains(value, "utf8")
		}
	}
	return true
}
