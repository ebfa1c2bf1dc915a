// SPDX-License-Identifier: Apache-2.0

package fakecluster

import (
	"strings"
	"testing"
)

// Emulator understands as much of a terminal as the live views use.
type Emulator struct {
	TB       testing.TB
	rows     [][]rune
	row, col int
}

// Play takes what is written to the terminal.
func (v *Emulator) Play(text string) {
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

func (v *Emulator) put(r rune) {
	v.grow()
	for len(v.rows[v.row]) <= v.col {
		v.rows[v.row] = append(v.rows[v.row], ' ')
	}
	v.rows[v.row][v.col] = r
	v.col++
}

func (v *Emulator) grow() {
	for len(v.rows) <= v.row {
		v.rows = append(v.rows, nil)
	}
}

// sequence obeys one control sequence and returns its length.
func (v *Emulator) sequence(runes []rune) int {
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
		v.TB.Fatalf("unknown control sequence %q", string(runes[:n+1]))
	}
	return n + 1
}

// Text is the visible text of the terminal, and the text that has scrolled out of it.
func (v *Emulator) Text() string {
	var lines []string
	for _, row := range v.rows {
		lines = append(lines, string(row))
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}
