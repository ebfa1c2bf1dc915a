// SPDX-License-Identifier: Apache-2.0

package view

import "everynode.dev/everynode/internal/rollout"

// glyphs are the characters of the groups, and of a node that is not ready in any group.
type glyphs struct {
	group    [rollout.GroupCount]rune
	notReady rune
	// full, half and empty make up the progress bar: updated and available, updated, neither.
	full, half, empty rune
	// more marks the end of a truncated line.
	more string
}

func unicodeGlyphs() glyphs {
	return glyphs{
		group:    [rollout.GroupCount]rune{rollout.GroupIdle: '·', rollout.GroupDone: '●', rollout.GroupQueued: '○', rollout.GroupStarting: '◐', rollout.GroupStopping: '◌', rollout.GroupActing: '◆', rollout.GroupHeld: '▲'},
		notReady: '✖',
		full:     '█', half: '▒', empty: '░',
		more: "…",
	}
}

func asciiGlyphs() glyphs {
	return glyphs{
		group:    [rollout.GroupCount]rune{rollout.GroupIdle: ',', rollout.GroupDone: '#', rollout.GroupQueued: '.', rollout.GroupStarting: '+', rollout.GroupStopping: '-', rollout.GroupActing: '*', rollout.GroupHeld: '!'},
		notReady: 'x',
		full:     '#', half: '+', empty: '.',
		more: "...",
	}
}

// tone is a colour, named by its meaning.
type tone uint8

const (
	plain tone = iota
	faint
	good
	busy
	calm
	bad
	strong
)

// escape returns the "select graphic rendition" parameters of a tone. It uses only the eight basic colours, so that the
// theme of the terminal applies.
func (t tone) escape() string {
	switch t {
	case faint:
		return "2"
	case good:
		return "32"
	case busy:
		return "33"
	case calm:
		return "36"
	case bad:
		return "31"
	case strong:
		return "1"
	default:
		return ""
	}
}

// toneOf returns the colour of a group.
func toneOf(g rollout.Group) tone {
	switch g {
	case rollout.GroupDone:
		return good
	case rollout.GroupQueued:
		return plain
	case rollout.GroupStarting, rollout.GroupStopping:
		return busy
	case rollout.GroupActing:
		return calm
	case rollout.GroupHeld:
		return bad
	default:
		return faint
	}
}
