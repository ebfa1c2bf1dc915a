// SPDX-License-Identifier: Apache-2.0

package view

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// terminal understands as much of a terminal as Screen uses.
type terminal struct {
	t        *testing.T
	rows     [][]rune
	row, col int
}

func (v *terminal) play(text string) {
	runes := []rune(text)
	for i := 0; i < len(runes); i++ {
		switch r := runes[i]; r {
		case '\n':
			v.row, v.col = v.row+1, 0 // a terminal's driver adds the carriage return
		case '\r':
			v.col = 0
		case '\x1b':
			i += v.sequence(runes[i+1:])
		default:
			v.put(r)
		}
	}
}

func (v *terminal) put(r rune) {
	v.grow()
	for len(v.rows[v.row]) <= v.col {
		v.rows[v.row] = append(v.rows[v.row], ' ')
	}
	v.rows[v.row][v.col] = r
	v.col++
}

func (v *terminal) grow() {
	for len(v.rows) <= v.row {
		v.rows = append(v.rows, nil)
	}
}

// sequence obeys one control sequence and returns its length.
func (v *terminal) sequence(runes []rune) int {
	number, n := 0, 1
	for ; runes[n] >= '0' && runes[n] <= ';'; n++ {
		number = number*10 + int(runes[n]-'0')
	}
	v.grow()
	switch runes[n] {
	case 'A':
		v.row -= number
	case 'K':
		v.rows[v.row] = v.rows[v.row][:min(v.col, len(v.rows[v.row]))]
	case 'J':
		v.rows[v.row] = v.rows[v.row][:min(v.col, len(v.rows[v.row]))]
		v.rows = v.rows[:v.row+1]
	case 'm':
	default:
		v.t.Fatalf("unknown control sequence %q", string(runes[:n+1]))
	}
	return n + 1
}

func (v *terminal) text() string {
	var lines []string
	for _, row := range v.rows {
		lines = append(lines, string(row))
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

func TestWhatTheTerminalShowsAtTheEndOfEachStep(t *testing.T) {
	var out bytes.Buffer
	screen, tracker := screenOf(&out, 100, 24, ScreenOptions{Colour: true}), NewTracker("default/agent")
	seen := &terminal{t: t}
	said := ""
	for i, s := range story() {
		model := tracker.Next(s.input())
		must(t, screen.Show(model))
		if i%3 == 0 {
			text := "step " + strings.Repeat("x", i) + "\nsecond line"
			must(t, screen.Say(text))
			said += text + "\n"
		}
		seen.play(out.String())
		out.Reset()
		var want strings.Builder
		for _, l := range frame(model, Size{100, 24}, unicodeGlyphs()) {
			l.encode(&want, false)
			want.WriteString("\n")
		}
		if got := seen.text(); got != strings.TrimRight(said+want.String(), "\n") {
			t.Fatalf("step %d shows\n%s\nwant\n%s%s", i, got, said, want.String())
		}
	}
	must(t, screen.Close())
	must(t, screen.Say("the end"))
	seen.play(out.String())
	if got := seen.text(); !strings.HasSuffix(got, "● up-to-date 30\nthe end") {
		t.Errorf("after Close the last picture has to stay and text to go below it; the terminal shows\n%s", got)
	}
}

func TestAFrameThatShrinksLeavesNothingBehind(t *testing.T) {
	var out bytes.Buffer
	screen := screenOf(&out, 60, 24, ScreenOptions{})
	must(t, screen.Show(NewTracker("default/agent").Next(scene{0, "ruotaxbc"}.input())))
	must(t, screen.Show(NewTracker("default/agent").Next(scene{time.Second, "uu"}.input())))
	seen := &terminal{t: t}
	seen.play(out.String())
	if got := strings.Count(seen.text(), "\n") + 1; got != 4 {
		t.Errorf("the terminal shows %d lines, want 4:\n%s", got, seen.text())
	}
}
