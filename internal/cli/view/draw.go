// SPDX-License-Identifier: Apache-2.0

package view

import (
	"io"
	"math"
	"os"
	"strings"

	"golang.org/x/term"
)

// Draw is the picture of one moment as text.
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

// unbounded is room for every reason and many cells, where nobody has to see all of it at once. Only rows of cells and of counts end at its width.
func unbounded() Size { return Size{Width: 100, Height: 40} }

// OptionsFor says what can be drawn where out goes: on what is no terminal without colours.
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
