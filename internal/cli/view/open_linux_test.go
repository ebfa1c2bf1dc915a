// SPDX-License-Identifier: Apache-2.0

package view

import (
	"io"
	"strings"
	"testing"

	"everynode.dev/everynode/internal/testing/fakecluster"
)

func TestOpenDrawsOnATerminalOfItsSize(t *testing.T) {
	for name, c := range map[string]struct {
		env     map[string]string
		colours bool
		ascii   bool
	}{
		"usual":    {map[string]string{"LANG": "C.UTF-8"}, true, false},
		"NO_COLOR": {map[string]string{"NO_COLOR": "1"}, false, false},
		"C locale": {map[string]string{"LC_ALL": "C"}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			reader, terminal := fakecluster.OpenTerminal(t, 40, 12)
			v := Open(terminal, func(name string) string { return c.env[name] })
			if _, ok := v.(*Screen); !ok {
				t.Fatalf("got a %T", v)
			}
			must(t, v.Show(NewTracker("default/agent").Next(scene{0, strings.Repeat("u", 100)}.input())))
			must(t, v.Say("the end"))
			seen := readUntil(t, reader, "the end")
			if got := strings.Contains(seen, "\x1b[32m"); got != c.colours {
				t.Errorf("colours %v, want %v: %q", got, c.colours, seen)
			}
			char := map[bool]string{false: "●", true: "#"}[c.ascii]
			if !strings.Contains(seen, strings.Repeat(char, 40)) || strings.Contains(seen, strings.Repeat(char, 41)) {
				t.Errorf("the rows of cells are not 40 characters wide: %q", seen)
			}
		})
	}
}

func TestOpenWritesLinesOnADumbTerminal(t *testing.T) {
	_, terminal := fakecluster.OpenTerminal(t, 80, 24)
	if v, ok := Open(terminal, func(string) string { return "dumb" }).(*Lines); !ok {
		t.Errorf("got a %T", v)
	}
}

func readUntil(t *testing.T, from io.Reader, end string) string {
	t.Helper()
	var seen strings.Builder
	buffer := make([]byte, 4096)
	for !strings.Contains(seen.String(), end) {
		n, err := from.Read(buffer)
		if err != nil {
			t.Fatalf("reading from the terminal: %v; so far %q", err, seen.String())
		}
		seen.Write(buffer[:n])
	}
	return seen.String()
}
