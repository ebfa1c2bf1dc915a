// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	depth = flag.Int("depth", 7, "how many steps TestExhaustive goes from the edit")
	whole = flag.Int("whole", 0, "1 has TestEveryState find all states of a roll on one node, 2 also with annotations of OpenYurt, with a fault, and on two nodes")
)

// TestExhaustive goes every way that a roll from one revision to another can take, in small clusters: whatever happens next, and with one fault.
// From every state that it comes to, all has to come to its end.
func TestExhaustive(t *testing.T) {
	steps := *depth
	if testing.Short() {
		steps = min(steps, 5)
	}
	for _, c := range []string{
		"native nodes=1 unavailable=1 surge=0 minready=0 with=answers,crashes",
		"native nodes=2 unavailable=1 surge=0 minready=0 with=answers",
		"native nodes=2 unavailable=0 surge=1 minready=0 with=answers",
		"native nodes=3 unavailable=1 surge=0 minready=0 with=crashes",
		"kruise nodes=2 unavailable=1 surge=0 minready=0 with=answers,inplace",
		"kruise nodes=2 unavailable=1 surge=0 minready=0 with=answers,hooks",
		"kruise nodes=3 unavailable=1 surge=0 minready=0 with=crashes,inplace",
		"edge nodes=1 unavailable=1 surge=0 minready=0 with=answers,crashes",
		"edge nodes=2 unavailable=1 surge=0 minready=0 with=answers",
		"edge nodes=3 unavailable=1 surge=0 minready=0 with=crashes",
	} {
		t.Run(c, func(t *testing.T) { explore(t, c, steps) })
	}
}

// TestEveryState goes on with that until there is no new state, however many steps that takes.
func TestEveryState(t *testing.T) {
	for _, c := range []struct {
		whole  int
		config string
	}{
		{1, "native nodes=1 unavailable=1 surge=0 minready=0 with="},
		{1, "native nodes=1 unavailable=0 surge=1 minready=0 with="},
		{1, "kruise nodes=1 unavailable=1 surge=0 minready=0 with=inplace"},
		{2, "edge nodes=1 unavailable=1 surge=0 minready=0 with="},
		{2, "native nodes=1 unavailable=1 surge=0 minready=0 with=answers,crashes"},
		{2, "kruise nodes=1 unavailable=1 surge=0 minready=0 with=answers,inplace"},
		{2, "edge nodes=1 unavailable=1 surge=0 minready=0 with=answers"},
		{2, "native nodes=2 unavailable=1 surge=0 minready=0 with="},
	} {
		t.Run(c.config, func(t *testing.T) {
			if *whole < c.whole {
				t.Skipf("it has many states; -whole %d finds them all", c.whole)
			}
			explore(t, c.config, math.MaxInt)
		})
	}
}

// explore is a search in breadth, so many steps far. It says how many different states and runs there were, and after how many steps the last new state
// was found: if those are less than it may go, there is none that it has not found.
func explore(t *testing.T, text string, most int) {
	cfg, err := parseConfig(text)
	if err != nil {
		t.Fatal(err)
	}
	cfg.faults = append(cfg.faults, "users") // for the first step
	seen, runs, last, told := map[[sha256.Size]byte]bool{}, 0, 0, time.Now()
	for ways := [][]string{{"a user sets the image v2"}}; len(ways) > 0; ways = ways[1:] {
		way := ways[0]
		var next []string
		follow := script(way, false, func(step string) { t.Fatalf("%q is possible once and not again after %q", step, way) })
		o := playTo(t, cfg, follow, func(s *sim, ops []op) bool {
			faults := slices.ContainsFunc(way, isFault)
			key := sha256.Sum256(fmt.Append(nil, s.situation(), faults))
			if seen[key] {
				return false
			}
			seen[key], last = true, len(way)-1
			if last < most {
				next = s.choices(ops, !faults)
			}
			return true
		})
		if o.broken != nil {
			t.Fatalf("breaks %s\n%s", o.broken, o.text())
		}
		runs++
		for _, step := range next {
			ways = append(ways, append(slices.Clone(way), step))
		}
		if time.Since(told) > 10*time.Second {
			told = time.Now()
			_, _ = os.Stderr.WriteString(words("%d states in %d runs, %d steps far; %d ways to go\n", len(seen), runs, last, len(ways)))
		}
	}
	t.Logf("%d states, %d runs, the last new state after %d steps", len(seen), runs, last)
}

// isFault is whether a step is one that a good world does not have.
func isFault(step string) bool {
	return strings.Contains(step, ", ") || strings.HasSuffix(step, " dies")
}

// choices are the steps that are worth a try: what users do is the first step alone, and a manager looks when it is time to.
func (s *sim) choices(ops []op, faults bool) []string {
	var texts []string
	for _, o := range ops {
		dull := strings.HasPrefix(o.text, "a user ") || strings.Contains(o.text, " has seen all ") || o.text == "1s pass" || o.text == "40s pass"
		if s.lead != nil && o.text == s.lead.name+" looks" && !s.lead.due() {
			dull = true
		}
		if !dull && (faults || !isFault(o.text)) && !slices.Contains(texts, o.text) {
			texts = append(texts, o.text)
		}
	}
	return texts
}
