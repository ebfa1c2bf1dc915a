// SPDX-License-Identifier: Apache-2.0

// Package bench measures controllers of daemon sets beside each other, and beside a floor: each on a plane of its own, one after the
// other, with the same settings and on the same simulated nodes, which take no time for anything.
//
//	row        who is measured: the floor, the native controller, or Everynode with one of its kinds of sets
//	floor      a plain client that sends the same writes as a controller has to, without any budget, as fast as the API server takes
//	           them; where a budget has a roll go in steps, as many cycles of a single node as there are steps, if that takes longer
//	scenario   what is done: create, idle, roll, restart in mid-roll, roll with nodes cut
//	result     what one scenario of one row took: time, CPU, memory, and writes by kind
//
// The rule: writes are counted by the API server, for the user of that controller alone (see count_test.go), and times are taken from a
// watch of pods that belongs to the measurement; nothing is what a controller says of itself. Counts are judged, times are only told.
package bench

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/localplane/simkubelet"
	"everynode.dev/everynode/test/harness"
)

var (
	measure = flag.Bool("measure", false, "measure what BENCH_NODES, BENCH_ROWS, BENCH_SCENARIOS and BENCH_IDLE say")
	out     = flag.String("out", "", "write the table, all numbers and the plot into this directory")
	docs    = flag.String("docs", "", "write what comes out into the documents of this directory")
	from    = flag.String("from", "", "measure nothing, and take the numbers that -out has written to this file, or to several with commas between them")
)

// TestBench measures at full size. What it writes, it writes after each plane: a run that is stopped leaves what it had.
func TestBench(t *testing.T) {
	switch {
	case *from != "":
		r, err := loaded(*from)
		if err != nil {
			t.Fatalf("-from: %v", err)
		}
		present(t, r)
	case *measure:
		s, err := settingsOf(os.Getenv)
		if err != nil {
			t.Fatal(err)
		}
		r := newRun(t, s)
		r.dirs = []string{*out}
		if r.Machine.Commit, err = commitOf(t.Context(), filepath.Join(harness.BinDir(), "everynode-manager")); err != nil {
			t.Fatal(err)
		}
		for _, nodes := range s.sizes {
			for round := range s.roundsOf(nodes) {
				r.measure(t, nodes, round, s)
			}
		}
		present(t, r)
	default:
		t.Skip("SKIPPED: this takes hours; run make bench (BENCH_NODES, BENCH_ROWS and BENCH_SCENARIOS choose a part of it)")
	}
}

// measure plays all rows once, each on a plane of its own: what is compared is never far apart in time.
func (r *run) measure(t *testing.T, nodes, round int, s settings) {
	if s.round = round; round > 0 {
		s.scenarios = slices.DeleteFunc(slices.Clone(s.scenarios), func(name string) bool { return !repeated(name) })
		if len(s.scenarios) == 0 {
			return
		}
	}
	for _, w := range s.rows {
		t.Run(fmt.Sprintf("%d/%d/%s", nodes, round+1, w.Name), func(t *testing.T) {
			r.Results = append(r.Results, measured(t, w, nodes, s)...)
		})
		save(t, r)
	}
}

// present says what was measured, and writes it where the flags say.
func present(t *testing.T, r *run) {
	t.Helper()
	r.sort()
	save(t, r)
	t.Logf("results:\n%s\n%s\ngoals:\n%s\n%s", r.table().Markdown(), r.serverTable().Markdown(), r.goalTable().Markdown(), r.faster())
	for _, result := range r.Results {
		if err := result.judge(); err != nil {
			t.Errorf("%s, %d nodes, %s: %v", result.Row, result.Nodes, result.Scenario, err)
		}
	}
	if *docs == "" {
		return
	}
	if err := r.document(*docs); err != nil {
		t.Error(err)
	}
}

// save writes the table, the numbers and the plot, if that is wanted.
func save(t *testing.T, r *run) {
	t.Helper()
	if *out == "" {
		return
	}
	r.sort()
	if err := r.write(*out, "bench"); err != nil {
		t.Error(err)
	}
}

// measured plays the scenarios of one row on a plane of its own, and returns what was measured before anything failed.
func measured(t *testing.T, w row, nodes int, s settings) (results []result) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.simulated = s.simulated
	b := newBench(t, ctx, w, nodes)
	b.profiled, b.round = s.profile, s.round
	for _, sc := range scenarios() {
		// Everything needs pods, so they are created in any case.
		wanted := slices.Contains(s.scenarios, sc.name)
		if w.floor() && !sc.floor || !wanted && sc.name != create {
			continue
		}
		result, err := sc.play(b, s)
		if err != nil {
			t.Errorf("%s: %v\n%s", sc.name, err, b.tails())
			return results
		}
		if wanted {
			results = append(results, *result)
			t.Logf("%s: %s", sc.name, result)
		}
	}
	return results
}

// smoke is what make test plays: enough to count, too little to time.
func smoke() settings {
	const nodes, idleFor = 200, 5 * time.Second
	return settings{sizes: []int{nodes}, rows: rowsNamed("everynode", "in-place"), scenarios: []string{create, idle, roll}, idle: idleFor, simulated: simkubelet.Fast()}
}

// TestSmokeBench measures 200 nodes, and judges what can be counted. How long anything takes does not matter.
func TestSmokeBench(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: this starts planes; run without -short (make test SUITE=smoke)")
	}
	s := smoke()
	for _, w := range s.rows {
		t.Run(w.Name, func(t *testing.T) {
			t.Parallel() // nothing is timed
			results := measured(t, w, s.sizes[0], s)
			if len(results) != len(s.scenarios) {
				t.Errorf("%d of %d scenarios were measured", len(results), len(s.scenarios))
			}
			for _, result := range results {
				if err := result.judge(); err != nil {
					t.Errorf("%s: %v", result.Scenario, err)
				}
			}
		})
	}
}

// options are those of the plane of a row, whose manager serves metrics and profiles there.
func (w row) options(nodes int, metrics string) harness.Options {
	return harness.Options{
		Nodes: nodes, Controller: w.controller, Advanced: w.advanced, Sim: &w.simulated,
		// Nothing is pulled ahead: a native DaemonSet does not do so either. The default install has no limit of requests either.
		ManagerArgs: []string{"--kube-api-qps=0", "--feature-gates=PreDownloadImageForDaemonSetUpdate=false", "--profiling", "--metrics-bind-address=" + metrics},
	}
}

// write puts the table, the numbers and the plot into a directory.
func (r *run) write(dir, name string) error {
	svg, err := r.figure().SVG()
	if err != nil {
		return err
	}
	numbers, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for file, content := range map[string][]byte{
		name + ".txt": []byte(r.benchstat()),
		name + ".md":  []byte(strings.Join([]string{r.goalTable().Markdown(), r.faster(), r.table().Markdown(), r.serverTable().Markdown(), r.servedTable().Markdown(), r.restarts().Markdown()}, "\n")), name + ".json": append(numbers, '\n'), name + ".svg": svg,
	} {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
