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

// tone is a rollout.Tone, or strong.
type tone rollout.Tone

const (
	plain  = tone(rollout.TonePlain)
	faint  = tone(rollout.ToneFaint)
	good   = tone(rollout.ToneGood)
	busy   = tone(rollout.ToneBusy)
	acting = tone(rollout.ToneActing)
	bad    = tone(rollout.ToneBad)
	strong = bad + 1 // a title
)

// escape returns the "select graphic rendition" parameters of a tone. It uses only the eight basic colours, so that the
// theme of the terminal applies.
func (t tone) escape() string {
	return [...]string{plain: "", faint: "2", good: "32", busy: "33", acting: "36", bad: "31", strong: "1"}[t]
}
