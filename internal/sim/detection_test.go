// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	killing     = flag.Bool("mutants", false, "see whether the stories and the search detect every mutant; each is built for itself")
	mutantSeeds = flag.Int("mutant-seeds", 4000, "how many seeds are searched for one that detects a mutant")
	runLimit    = flag.Duration("run-limit", 0, "how long one run may take before it counts as one without an end; 0 for as long as it takes")
)

const (
	// mutantRunLimit is how long a run of a mutant may take, which takes a part of a second as a rule.
	mutantRunLimit = 2 * time.Minute
	// searchLimit is how long a mutant is searched. What survives for so long is not detected.
	searchLimit = 40 * time.Minute
	// endless is what a mutant breaks whose run has no end, where the same run of the unbroken code has one.
	endless = "endless"
)

// detectionFile has what detected each mutant the last time: a seed or a story. TestMutants tries that first, and with -update writes what it has found:
// go test ./internal/sim -run '^TestMutants$' -mutants -update
const detectionFile = "testdata/mutants.tsv"

// detections are what detected mutants, by their names.
type detections map[string]string

func readDetections() (detections, error) {
	data, err := os.ReadFile(detectionFile)
	if err != nil {
		return nil, err
	}
	all := detections{}
	for line := range strings.Lines(string(data)) {
		by, name, is := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !is || all[name] != "" {
			return nil, fmt.Errorf("reading %s: %q is not BY, a tab and the name of one mutant", detectionFile, line)
		}
		all[name] = by
	}
	return all, nil
}

// String has a line for each mutant that there is, in the order of the mutants.
func (d detections) String() string {
	var text strings.Builder
	for _, m := range mutants() {
		if by := d[m.name]; by != "" {
			fmt.Fprintf(&text, "%s\t%s\n", by, m.name)
		}
	}
	return text.String()
}

// hunt looks for what detects mutants.
type hunt struct {
	*builder
	// whole is the test program without a mutant.
	whole string
	mu    sync.Mutex
	known detections
}

// TestMutants builds each mutant, and sees whether it breaks an invariant: in the run that detected it the last time, or else in any story, or else in
// any of the first seeds. A mutant that no run breaks is not detected, whatever else becomes of it.
func TestMutants(t *testing.T) {
	if !*killing {
		t.Skip("make test SUITE=sim-mutants builds and detects them; it takes some minutes")
	}
	known, err := readDetections()
	if err != nil {
		t.Fatal(err)
	}
	b := newBuilder(t)
	h := &hunt{builder: b, whole: b.unbroken(t), known: known}
	if out, err := exec.CommandContext(t.Context(), h.whole, "-test.run=^TestScripts$").CombinedOutput(); err != nil {
		t.Fatalf("the stories fail without a mutant: %v\n%s", err, out)
	}
	t.Run("each", func(t *testing.T) {
		for _, m := range mutants() {
			t.Run(m.name, func(t *testing.T) {
				t.Parallel()
				h.detect(t, &m)
			})
		}
	})
}

// detect looks for a run that a mutant breaks.
func (h *hunt) detect(t *testing.T, m *mutant) {
	program := h.build(t, m)
	h.mu.Lock()
	last := h.known[m.name]
	h.mu.Unlock()
	var failed error
	for _, args := range [][]string{again(last), {"-test.run=^TestScripts$"}, {"-test.run=^TestSim$", "-seeds", words("%d", *mutantSeeds)}} {
		if args == nil {
			continue
		}
		found, err := h.try(t, program, m, args)
		if err != nil {
			failed = err
		}
		if found.by == "" {
			continue
		}
		t.Logf("%s breaks %s: %.300s", found.by, found.rule, found.what)
		if found.by != last {
			t.Logf("the last time it was %q: run with -update to write that down", last)
			h.learn(t, m, found.by)
		}
		return
	}
	if failed != nil {
		t.Fatalf("not detected: %v", failed)
	}
	t.Errorf("survived the stories and %d seeds", *mutantSeeds)
}

// again are the arguments for the run that detected a mutant the last time; nil for none.
func again(by string) []string {
	if seed, is := strings.CutPrefix(by, "seed "); is {
		return []string{"-test.run=^TestSim$", "-seeds", "1", "-from", seed}
	}
	if story, is := strings.CutPrefix(by, "story "); is {
		return []string{"-test.run=^TestScripts$/^" + regexp.QuoteMeta(story) + "$"}
	}
	return nil
}

// detection is the seed or story that a mutant breaks, and what it breaks of it.
type detection struct{ by, rule, what string }

// try lets a program play runs with what a mutant needs. It returns the zero value if none breaks an invariant, with an error if something else ended them.
func (h *hunt) try(t *testing.T, program string, m *mutant, args []string) (detection, error) {
	ctx, stop := context.WithTimeout(t.Context(), searchLimit)
	defer stop()
	args = slices.Concat(args, []string{"-test.timeout=0", "-quick", "-run-limit", mutantRunLimit.String(), "-rules", m.rules(), "-with", m.with()})
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err == nil {
		return detection{}, nil
	}
	found := foundBy(string(out))
	exit := (*exec.ExitError)(nil)
	switch {
	case ctx.Err() != nil:
		return detection{}, fmt.Errorf("it survives, and the search has not ended after %s", searchLimit)
	case !errors.As(err, &exit) || exit.ExitCode() != 1 || found.by == "":
		return detection{}, fmt.Errorf("it was not the search that stopped it: %w\n%s", err, out)
	case found.rule == endless && program != h.whole:
		if other, err := h.try(t, h.whole, m, again(found.by)); err != nil {
			return detection{}, err
		} else if other.by != "" {
			return detection{}, fmt.Errorf("%s has no end without the mutant either", found.by)
		}
	}
	return found, nil
}

// foundBy reads the output of the test program.
func foundBy(out string) detection {
	if found := regexp.MustCompile(`(seed \d+|story \S+) has no end: `).FindStringSubmatch(out); found != nil {
		return detection{found[1], endless, "the run has no end"}
	}
	if found := regexp.MustCompile(`(seed \d+) breaks ([a-z-]+): (.*)`).FindStringSubmatch(out); found != nil {
		return detection{found[1], found[2], found[3]}
	}
	if found := regexp.MustCompile(`--- FAIL: TestScripts/(\S+) .*\n.*: breaks ([a-z-]+): (.*)`).FindStringSubmatch(out); found != nil {
		return detection{"story " + found[1], found[2], found[3]}
	}
	return detection{}
}

// learn keeps what has detected a mutant, at once where the table is to be written: a run that is ended loses nothing.
func (h *hunt) learn(t *testing.T, m *mutant, by string) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !*update {
		return
	}
	if last, err := readDetections(); err == nil { // another process may have written it
		maps.Copy(h.known, last)
	}
	h.known[m.name] = by
	if err := os.WriteFile(detectionFile, []byte(h.known.String()), 0o600); err != nil {
		t.Error(err)
	}
}

// inTime plays a run. Where that takes too long for -run-limit, it ends the process: nothing else ends a loop.
func inTime(name string, run func()) {
	if *runLimit > 0 {
		watch := time.AfterFunc(*runLimit, func() {
			_, _ = os.Stderr.WriteString(words("%s has no end: %s\n", name, *runLimit))
			os.Exit(1)
		})
		defer watch.Stop()
	}
	run()
}

// TestDetections: the table names only mutants and stories that there are; docs/reliability.md counts them. A mutant that it does not have is searched.
func TestDetections(t *testing.T) {
	known, err := readDetections()
	if err != nil {
		t.Fatal(err)
	}
	left, stories, seeds := maps.Clone(known), 0, 0
	for _, m := range mutants() {
		by := known[m.name]
		delete(left, m.name)
		if story, is := strings.CutPrefix(by, "story "); is {
			stories++
			if _, err := os.Stat(filepath.Join("testdata", story)); err != nil {
				t.Errorf("%q is detected by a story that is not there: %v", m.name, err)
			}
		} else if by != "" {
			seeds++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		t.Errorf("%s names %q, and there is no such mutant", detectionFile, name)
	}
	text := words("There are %d mutants. %d are detected by a story of `internal/sim/testdata`, and %d by one of %d seeds.", len(mutants()), stories, seeds, *mutantSeeds)
	if rest := len(mutants()) - stories - seeds; rest > 0 {
		text += words(" For the other %d the table has no run yet.", rest)
	}
	checkSection(t, "mutants", text+"\n")
}

// TestFoundBy: only a run that breaks an invariant, or has no end, is a detection.
func TestFoundBy(t *testing.T) {
	for out, want := range map[string]detection{
		"    search_test.go:73: seed 17 breaks one-pod: n1 has two\n":                              {"seed 17", "one-pod", "n1 has two"},
		"--- FAIL: TestScripts/a.txt (0.01s)\n        search_test.go:1: breaks budget: too many\n": {"story a.txt", "budget", "too many"},
		"seed 4 has no end: 2m0s\n": {"seed 4", endless, "the run has no end"},
		"--- FAIL: TestScripts/a.txt (0.01s)\n        search_test.go:1: breaks <nil>\n":                     {},
		"--- FAIL: TestScripts/a.txt (0.01s)\n        search_test.go:1: \"A looks\" cannot be done there\n": {},
		"panic: runtime error\n": {}, "PASS\n": {}, "": {},
	} {
		if found := foundBy(out); found != want {
			t.Errorf("%q: %+v, want %+v", out, found, want)
		}
	}
}
