// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"io"
	"strings"
	"sync"
)

// ScreenOptions says what the terminal of a Screen can do.
type ScreenOptions struct {
	// Size is asked before each frame, so a terminal may be resized. Zeros stand for "not known".
	Size func() Size
	// Whole has Draw write every line to its end, and leave none out, whether the terminal has room for it or not. A Screen never does: it
	// counts lines to find its way back to the first one.
	Whole bool
	// Colour allows colours; without it every group still has a character of its own.
	Colour bool
	// ASCII forbids other characters.
	ASCII bool
}

// Screen draws on a terminal, each frame over the last one.
type Screen struct {
	mu      sync.Mutex
	out     io.Writer
	options ScreenOptions
	glyphs  glyphs
	// last is the frame on the screen, drawn how many lines it has.
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

// Say implements View: the text takes the place of the frame, which moves down.
func (s *Screen) Say(text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, l := range strings.Split(text, "\n") {
		b.WriteString(printable(l) + eraseRest + "\n")
	}
	return s.write(s.home() + b.String() + s.last + eraseBelow)
}

// Close implements View. The last frame stays and later output goes below it.
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

// home moves the cursor to where the frame began. Lines never wrap (frame clips them), so counting them is enough.
func (s *Screen) home() string {
	if s.drawn == 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dA\r", s.drawn)
}

// write sends one frame in one piece, so that nobody sees half of it.
func (s *Screen) write(text string) error {
	if _, err := io.WriteString(s.out, text); err != nil {
		return fmt.Errorf("drawing on the terminal: %w", err)
	}
	return nil
}
