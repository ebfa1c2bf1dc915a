// SPDX-License-Identifier: Apache-2.0

package view

import (
	"io"
	"math"
	"os"
	"strings"

	"golang.org/x/term"
)

// Draw returns a Model as text.
func Draw(m Model, o ScreenOptions) string {
	g := unicodeGlyphs()
	if o.ASCII {
		g = asciiGlyphs()
	}
	size := o.Size().normal()
	longest := size.Width
	if o.Whole {
		longest, size.Height = math.MaxInt, max(size.Height, unbounded().Height)
	}
	var b strings.Builder
	for _, l := range layout(m, size, g, longest) {
		l.encode(&b, o.Colour)
		b.WriteString("\n")
	}
	return b.String()
}

// unbounded is a size with room for all reasons and many cells. Only rows of cells and of counts are wrapped at its
// width.
func unbounded() Size { return Size{Width: 100, Height: 40} }

// OptionsFor returns the options for an output: without colours if it is not a terminal.
func OptionsFor(out io.Writer, getenv func(string) string) ScreenOptions {
	file, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return ScreenOptions{Size: unbounded, Whole: true, ASCII: !supportsUTF8(getenv)}
	}
	size := func() Size {
		width, height, err := term.GetSize(int(file.Fd()))
		if err != nil {
			return Size{}
		}
		return Size{Width: width, Height: height}
	}
	return ScreenOptions{Size: size, Colour: getenv("NO_COLOR") == "" && getenv("TERM") != "dumb", ASCII: !supportsUTF8(getenv)}
}
