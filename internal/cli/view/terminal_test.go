// SPDX-License-Identifier: Apache-2.0

package view

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/internal/testing/fakecluster"
)

func TestWhatTheTerminalShowsAtTheEndOfEachStep(t *testing.T) {
	var out bytes.Buffer
	screen, tracker := screenOf(&out, 100, 24, ScreenOptions{Colour: true}), NewTracker("default/agent")
	seen := &fakecluster.Emulator{TB: t}
	said := ""
	for i, s := range story() {
		model := tracker.Next(s.input())
		must(t, screen.Show(model))
		if i%3 == 0 {
			text := "step " + strings.Repeat("x", i) + "\nsecond line"
			must(t, screen.Say(text))
			said += text + "\n"
		}
		seen.Play(out.String())
		out.Reset()
		var want strings.Builder
		for _, l := range frame(model, Size{100, 24}, unicodeGlyphs()) {
			l.encode(&want, false)
			want.WriteString("\n")
		}
		if got := seen.Text(); got != strings.TrimRight(said+want.String(), "\n") {
			t.Fatalf("step %d shows\n%s\nwant\n%s%s", i, got, said, want.String())
		}
	}
	must(t, screen.Close())
	must(t, screen.Say("the end"))
	seen.Play(out.String())
	if got := seen.Text(); !strings.HasSuffix(got, "● up-to-date 30\nthe end") {
		t.Errorf("after Close the last picture has to stay and text to go below it; the terminal shows\n%s", got)
	}
}

func TestAFrameThatShrinksLeavesNothingBehind(t *testing.T) {
	var out bytes.Buffer
	screen := screenOf(&out, 60, 24, ScreenOptions{})
	must(t, screen.Show(NewTracker("default/agent").Next(scene{0, "ruotaxbc"}.input())))
	must(t, screen.Show(NewTracker("default/agent").Next(scene{time.Second, "uu"}.input())))
	seen := &fakecluster.Emulator{TB: t}
	seen.Play(out.String())
	if got := strings.Count(seen.Text(), "\n") + 1; got != 4 {
		t.Errorf("the terminal shows %d lines, want 4:\n%s", got, seen.Text())
	}
}
