// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"io"
	"strings"
	"sync"
)

// ScreenOptions has the capabilities of the terminal of a Screen.
type ScreenOptions struct {
	// Size is called before each frame, because a terminal may be resized. Zeros mean "unknown".
	Size func() Size
	// Whole makes Draw write every line completely, whatever the size of the terminal. A Screen never does that: it
	// counts lines to move the cursor back to the first one.
	Whole bool
	// Colour enables colours; each group has its own character too.
	Colour bool
	// ASCII restricts the output to ASCII characters.
	ASCII bool
}

// Screen draws on a terminal, each frame over the last one.
type Screen struct {
	mu      sync.Mutex
	out     io.Writer
	options ScreenOptions
	glyphs  glyphs
	// last is the frame on the screen, drawn is its number of lines.
	last  string
	drawn int
}

// NewScreen returns a Screen that writes to out.
func NewScreen(out io.Writer, options ScreenOptions) *Screen {
	s := &Screen{out: out, options: options, glyphs: unicodeGlyphs()}
	if options.ASCII {
		s.glyphs = asciiGlyphs()
	}
	return s
}

// Show implements View.
func (s *Screen) Show(m Model) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := frame(m, s.options.Size(), s.glyphs)
	var b strings.Builder
	for _, l := range lines {
		l.encode(&b, s.options.Colour)
		b.WriteString(eraseRest + "\n")
	}
	text := b.String()
	if text == s.last {
		return nil
	}
	err := s.write(s.home() + text + eraseBelow)
	s.last, s.drawn = text, len(lines)
	return err
}

// Say implements View: the text is written above the frame.
func (s *Screen) Say(text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, l := range strings.Split(text, "\n") {
		b.WriteString(printable(l) + eraseRest + "\n")
	}
	return s.write(s.home() + b.String() + s.last + eraseBelow)
}

// Close implements View. The last frame stays, and later output follows it.
func (s *Screen) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last, s.drawn = "", 0
	return nil
}

const (
	eraseRest  = "\x1b[K" // from the cursor to the end of the line
	eraseBelow = "\x1b[J" // from the cursor to the end of the screen
)

// home moves the cursor to the beginning of the frame. Lines never wrap (frame clips them), so it is enough to count
// them.
func (s *Screen) home() string {
	if s.drawn == 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dA\r", s.drawn)
}

// write sends a frame in one write, so that no partial frame is visible.
func (s *Screen) write(text string) error {
	if _, err := io.WriteString(s.out, text); err != nil {
		return fmt.Errorf("drawing on the terminal: %w", err)
	}
	return nil
}
