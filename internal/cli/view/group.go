// SPDX-License-Identifier: Apache-2.0

package view

import "everynode.dev/everynode/internal/rollout"

// Group is a handful of verdicts that look the same to a person.
type Group uint8

// The groups, from the calmest to the one that most wants attention; where one cell stands for several nodes it shows
// the last of theirs in this order.
const (
	Aside    Group = iota // nothing is wanted here
	Done                  // the wanted pod is there and available
	Queued                // an old pod, or none, whose turn has not come
	Starting              // the wanted pod is there, or being changed into, and not available yet
	Going                 // a pod is terminating, or about to
	Acting                // a write is made right now
	Held                  // something is in the way that may need a person
	groups
)

// GroupOf returns the group of a verdict.
func GroupOf(kind rollout.VerdictKind) Group {
	switch kind {
	case rollout.UpToDate:
		return Done
	case rollout.Creating, rollout.Recreating, rollout.Surging, rollout.FinishingSurge, rollout.Removing,
		rollout.ReplacingFailed, rollout.ReplacingEnded, rollout.RemovingExcess,
		rollout.Preparing, rollout.Restoring, rollout.UpdatingInPlace, rollout.FinishingInPlace:
		return Acting
	case rollout.WaitAvailable, rollout.WaitGrace, rollout.WaitInPlace:
		return Starting
	case rollout.WaitTerminating, rollout.WaitHook:
		return Going
	case rollout.WaitBudget, rollout.WaitReplacing, rollout.WaitOnDelete, rollout.WaitBurst, rollout.WaitSurgeRemove,
		rollout.WaitEligible, rollout.WaitPaused, rollout.WaitPartition, rollout.WaitSelector, rollout.WaitProgressive,
		rollout.WaitImage, rollout.WaitController, rollout.WaitOwner:
		return Queued
	case rollout.WaitBackoff, rollout.WaitCollection, rollout.WaitUnreachable, rollout.Blocked:
		return Held
	default:
		return Aside
	}
}

// Waiting is whether nodes of this group wait for something that a person may ask about.
func (g Group) Waiting() bool {
	return g == Queued || g == Starting || g == Going || g == Held
}

// glyphs are the characters of the groups, and of a node that is not ready, whatever its group.
type glyphs struct {
	group    [groups]rune
	notReady rune
	// full, half and empty make up the progress bar: updated and available, updated, neither.
	full, half, empty rune
	// more stands at the end of a line for what has no room on it.
	more string
}

func unicodeGlyphs() glyphs {
	return glyphs{
		group:    [groups]rune{Aside: '·', Done: '●', Queued: '○', Starting: '◐', Going: '◌', Acting: '◆', Held: '▲'},
		notReady: '✖',
		full:     '█', half: '▒', empty: '░',
		more: "…",
	}
}

func asciiGlyphs() glyphs {
	return glyphs{
		group:    [groups]rune{Aside: ',', Done: '#', Queued: '.', Starting: '+', Going: '-', Acting: '*', Held: '!'},
		notReady: 'x',
		full:     '#', half: '+', empty: '.',
		more: "...",
	}
}

// tone is a colour by meaning.
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

// escape returns the "select graphic rendition" parameters of a tone. Only the eight basic colours are used, so that the
// terminal's own theme decides what they look like.
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

func (g Group) tone() tone {
	switch g {
	case Done:
		return good
	case Queued:
		return plain
	case Starting, Going:
		return busy
	case Acting:
		return calm
	case Held:
		return bad
	default:
		return faint
	}
}
