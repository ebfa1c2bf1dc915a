// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// spread is what repetitions of one number come to.
type spread struct {
	least, median, most float64
	of                  int
}

func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return spread{least: sorted[0], median: (sorted[(n-1)/2] + sorted[n/2]) / 2, most: sorted[n-1], of: n}
}

// format is the median, and of several values the least and the greatest.
func (s spread) format(verb string) string {
	switch {
	case s.of == 0:
		return ""
	case s.of == 1 || fmt.Sprintf(verb, s.least) == fmt.Sprintf(verb, s.most):
		return fmt.Sprintf(verb, s.median)
	}
	return fmt.Sprintf(verb+" ("+verb+"–"+verb+")", s.median, s.least, s.most)
}

// rounds are the repetitions of a run, each as a run of its own.
func (r *run) rounds() []*run {
	var all []*run
	for _, m := range r.Results {
		for len(all) <= m.Round {
			all = append(all, &run{Machine: r.Machine, Profile: r.Profile, Idle: r.Idle, dirs: r.dirs})
		}
		all[m.Round].Results = append(all[m.Round].Results, m)
	}
	return all
}

// ofRounds is a number of each round that has it.
func (r *run) ofRounds(value func(*run, int) (float64, bool), nodes int) (values []float64) {
	for _, one := range r.rounds() {
		if v, ok := value(one, nodes); ok {
			values = append(values, v)
		}
	}
	return values
}

// repeats are the results that are repetitions of each other.
func (r *run) repeats() (groups [][]result) {
	type what struct {
		row, scenario string
		nodes         int
	}
	at := map[what]int{}
	for _, m := range r.Results {
		w := what{m.Row, m.Scenario, m.Nodes}
		i, known := at[w]
		if !known {
			i = len(groups)
			at[w], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], m)
	}
	return groups
}

// over is a number of each of several results.
func over(same []result, number func(result) float64) spread {
	var values []float64
	for _, m := range same {
		values = append(values, number(m))
	}
	return spreadOf(values)
}

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   string
	}{
		{nil, ""},
		{[]float64{2}, "2.0"},
		{[]float64{3, 1, 2}, "2.0 (1.0–3.0)"},
		{[]float64{4, 1, 2, 3}, "2.5 (1.0–4.0)"},
		{[]float64{2.01, 2, 2.04}, "2.0"},
	} {
		if got := spreadOf(c.values).format("%.1f"); got != c.want {
			t.Errorf("%v: %q, want %q", c.values, got, c.want)
		}
	}
}

// benchstat is what benchstat reads: a line for each result, so that a comparison of two runs shows whether they differ.
func (r *run) benchstat() string {
	var b strings.Builder
	fmt.Fprintf(&b, "commit: %s\n", cmp.Or(r.Machine.Commit, "unknown"))
	for _, m := range r.Results {
		fmt.Fprintf(&b, "Benchmark/nodes=%d/%s/%s 1 %.3f wall-s %.3f controller-cpu-s %.3f apiserver-cpu-s %d peak-B\n", m.Nodes, m.Scenario, m.Row, m.Wall, m.ControllerCPU, m.APIServerCPU, m.PeakMemory)
	}
	return b.String()
}

func TestRounds(t *testing.T) {
	r := &run{Machine: machine{Commit: "abc"}, Results: []result{
		{Row: floorRow, Nodes: middle, Scenario: create, Wall: 10, ControllerCPU: 1, PeakMemory: 5},
		{Row: everynodeRow, Nodes: middle, Scenario: create, Wall: 20},
		{Row: everynodeRow, Nodes: middle, Scenario: idle, Wall: 60},
		{Row: floorRow, Nodes: middle, Scenario: create, Wall: 20, Round: 1},
		{Row: everynodeRow, Nodes: middle, Scenario: create, Wall: 21, Round: 1},
	}}
	if got := r.ofRounds(overFloor(everynodeRow, create), middle); !slices.Equal(got, []float64{2, 1.05}) {
		t.Errorf("the ratios are %v: one is of two rounds", got)
	}
	if got := r.repeats(); len(got) != 3 || len(got[0]) != 2 || len(got[1]) != 2 || len(got[2]) != 1 || got[1][1].Wall != 21 {
		t.Errorf("the repetitions are %v", got)
	}
	lines := r.table().Rows
	if len(lines) != 3 || lines[0][3] != "15.0 (10.0–20.0)" || lines[1][4] != "1.52 (1.05–2.00)" {
		t.Errorf("the results are\n%s", r.table().Markdown())
	}
	const first = "commit: abc\nBenchmark/nodes=1000/create/floor 1 10.000 wall-s 1.000 controller-cpu-s 0.000 apiserver-cpu-s 5 peak-B\n"
	if text := r.benchstat(); !strings.HasPrefix(text, first) || strings.Count(text, "\n") != 6 {
		t.Errorf("for benchstat there is\n%s", text)
	}
}
