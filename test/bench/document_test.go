// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"everynode.dev/everynode/localplane/simkubelet"
	"everynode.dev/everynode/test/report"
)

// goal is something that the results have to show. It is told whether they do, and never judged: it depends on the machine.
type goal struct {
	what string
	// at are the sizes that it is about.
	at []int
	// most is the goal, at most; with least it is at least that.
	most  float64
	least bool
	value func(r *run, nodes int) (float64, bool)
	// rows and scenario are those whose profiles may say why it is missed; of what is no time there are none.
	rows     []string
	scenario string
}

func (g goal) met(value float64) bool {
	if g.least {
		return value >= g.most
	}
	return value <= g.most
}

const (
	middle  = 1000
	largest = 5000
)

// goals are those of the table in docs/benchmarks.md that a plane shows.
func goals() []goal {
	sizes := []int{middle, largest}
	cpu := func(m result) float64 { return m.ControllerCPU }
	peak := func(m result) float64 { return float64(m.PeakMemory) }
	var list []goal
	for _, name := range []string{everynodeRow, advancedRow, inPlaceRow} {
		title, under := rowOf(name).Title, rowOf(name).under
		list = append(list,
			goal{what: "create, wall over floor: " + title, at: sizes, most: 1.15, value: overFloor(name, create), rows: []string{name, under}, scenario: create},
			goal{what: "roll at 10%, wall over floor: " + title, at: sizes, most: 1.3, value: overFloor(name, roll), rows: []string{name, under}, scenario: roll},
		)
		if !rowOf(name).inPlace { // the native controller does nothing like it
			list = append(list, goal{what: "controller CPU of a roll, native over ours: " + title, at: []int{largest}, most: 5, least: true, value: compared(nativeRow, name, roll, cpu), rows: []string{name, nativeRow}, scenario: roll})
		}
		list = append(list,
			goal{what: "controller CPU of a roll per node, relative to the value with 1,000 nodes: " + title, at: []int{largest}, most: 1.2, value: perNode(name), rows: []string{name}, scenario: roll},
			goal{what: "peak memory over the native controller's: " + title, at: []int{largest}, most: 0.6, value: compared(name, nativeRow, roll, peak)},
		)
	}
	list = append(list, goal{what: "in-place roll, wall over our recreate roll", at: []int{largest}, most: 0.7, value: compared(inPlaceRow, advancedRow, roll, func(m result) float64 { return m.Wall }), rows: []string{inPlaceRow, advancedRow}, scenario: roll})
	for _, name := range []string{everynodeRow, advancedRow, inPlaceRow} {
		title := rowOf(name).Title
		list = append(list,
			goal{what: "writes of pods in a roll, more or less than needed: " + title, at: sizes, most: 0, value: one(name, roll, result.astray)},
			goal{what: "status writes of the set per second of a roll: " + title, at: sizes, most: 2, value: one(name, roll, func(m result) float64 { return float64(m.Requests[setStatuses]) / m.Whole })},
			goal{what: "idle, writes except leases: " + title, at: []int{largest}, most: 0, value: one(name, idle, func(m result) float64 { return float64(m.writes() - m.Requests[leases]) })},
			goal{what: "idle, percent of one core: " + title, at: []int{largest}, most: 0.5, value: one(name, idle, func(m result) float64 { return percent * m.ControllerCPU / m.Whole }), rows: []string{name}, scenario: idle},
			goal{what: "restart in mid-roll, seconds from full caches to the first write: " + title, at: []int{largest}, most: 2, value: one(name, restart, func(m result) float64 { return m.Restart.FirstWrite - m.Restart.CachesFull })},
			goal{what: "restart in mid-roll, writes of pods that were repeated: " + title, at: []int{largest}, most: 0, value: one(name, restart, func(m result) float64 { return float64(m.Restart.Repeated) })},
		)
	}
	return list
}

const percent = 100

// astray is how many writes of pods there are beyond those that are needed, and how many of those are lacking.
func (r result) astray() float64 {
	sum, wanted := 0, r.wanted(rowOf(r.Row))
	for _, kind := range []string{podCreates, podDeletes, podPatches, podStatuses} {
		sum += max(r.Requests[kind]-wanted[kind], wanted[kind]-r.Requests[kind])
	}
	return float64(sum)
}

func one(row, scenario string, number func(result) float64) func(*run, int) (float64, bool) {
	return func(r *run, nodes int) (float64, bool) {
		found, ok := r.of(row, nodes, scenario)
		if !ok || scenario == idle && !found.beaten() {
			return 0, false
		}
		return number(found), true
	}
}

func compared(above, below, scenario string, number func(result) float64) func(*run, int) (float64, bool) {
	return func(r *run, nodes int) (float64, bool) {
		a, ok1 := r.of(above, nodes, scenario)
		b, ok2 := r.of(below, nodes, scenario)
		if !ok1 || !ok2 || number(b) == 0 {
			return 0, false
		}
		return number(a) / number(b), true
	}
}

func perNode(row string) func(*run, int) (float64, bool) {
	return func(r *run, nodes int) (float64, bool) {
		large, ok1 := r.of(row, nodes, roll)
		small, ok2 := r.of(row, middle, roll)
		if !ok1 || !ok2 || small.Run != large.Run || small.ControllerCPU == 0 {
			return 0, false
		}
		return large.ControllerCPU / float64(nodes) / (small.ControllerCPU / middle), true
	}
}

func overFloor(row, scenario string) func(*run, int) (float64, bool) {
	return func(r *run, nodes int) (float64, bool) {
		found, ok := r.of(row, nodes, scenario)
		if !ok {
			return 0, false
		}
		floor, ok := r.floor(found)
		if !ok || floor == 0 {
			return 0, false
		}
		return found.Wall / floor, true
	}
}

// goalTable says for each goal what was measured in each round, and whether the median meets it.
func (r *run) goalTable() report.Table {
	table := report.Table{Words: 1, Head: []string{"", "nodes", "goal", "measured", ""}}
	for _, g := range goals() {
		for _, nodes := range g.at {
			bound, shown, verdict := fmt.Sprintf("at most %g", g.most), "", "not measured"
			if g.least {
				bound = fmt.Sprintf("at least %g", g.most)
			}
			if s := spreadOf(r.ofRounds(g.value, nodes)); s.of > 0 {
				shown, verdict = s.format("%.2f"), "met"
				if !g.met(s.median) {
					verdict = "**missed**"
				}
			}
			table.Rows = append(table.Rows, []string{g.what, strconv.Itoa(nodes), bound, shown, verdict})
		}
	}
	return table
}

// table is all results.
func (r *run) table() report.Table {
	table := report.Table{Words: 2, Head: []string{
		"", "scenario", "nodes", "wall", "over floor", "status", "CPU", "API server CPU", "peak MB", "MB read",
		"creates", "deletes", "patches", "pod statuses", "set statuses", "events", "leases", "other writes", "reads", "rejected", "watches ended", "pod events", "node writes", "cores busy", "stolen",
	}}
	for _, same := range r.repeats() {
		m := same[0]
		number := func(verb string, of func(result) float64) string { return over(same, of).format(verb) }
		own := func(text string) string {
			if rowOf(m.Row).floor() {
				return ""
			}
			return text
		}
		cells := []string{
			rowOf(m.Row).Title, m.Scenario, strconv.Itoa(m.Nodes), number("%.1f", func(m result) float64 { return m.Wall }),
			spreadOf(r.ofRounds(overFloor(m.Row, m.Scenario), m.Nodes)).format("%.2f"), own(number("%.1f", func(m result) float64 { return m.Whole })),
			number("%.2f", func(m result) float64 { return m.ControllerCPU }), number("%.1f", func(m result) float64 { return m.APIServerCPU }),
			own(number("%.0f", func(m result) float64 { return megabyte(m.PeakMemory) })), own(number("%.0f", func(m result) float64 { return megabyte(m.Read) })),
		}
		for _, kind := range []string{podCreates, podDeletes, podPatches, podStatuses, setStatuses, events, leases, otherWrites, reads} {
			cells = append(cells, number("%.0f", func(m result) float64 { return float64(m.Requests[kind]) }))
		}
		table.Rows = append(table.Rows, append(cells,
			number("%.0f", func(m result) float64 { return float64(m.Rejected) }), number("%.0f", func(m result) float64 { return float64(m.EndedWatches) }),
			own(receivedOf(same)), nodeWritesOf(same), sharesOf(same, func(c coreShare) float64 { return c.Busy }), sharesOf(same, func(c coreShare) float64 { return c.Stolen })))
	}
	return table
}

// receivedOf are the events about pods that a controller received, in the rounds in which that is known.
func receivedOf(same []result) string {
	known := slices.DeleteFunc(slices.Clone(same), func(m result) bool { return m.EndedWatches > 0 })
	if len(known) == 0 {
		return "unknown"
	}
	return over(known, func(m result) float64 { return float64(m.received()) }).format("%.0f")
}

func nodeWritesOf(same []result) string {
	known := slices.DeleteFunc(slices.Clone(same), func(m result) bool { return m.NodeWrites == nil })
	if len(known) == 0 {
		return same[0].nodeWrites()
	}
	return over(known, func(m result) float64 { return float64(*m.NodeWrites) }).format("%.0f")
}

// sharesOf are parts of all cores, of results that have looked at them.
func sharesOf(same []result, of func(coreShare) float64) string {
	known := slices.DeleteFunc(slices.Clone(same), func(m result) bool { return m.Cores == nil })
	return over(known, func(m result) float64 { return percent * of(*m.Cores) }).format("%.0f%%")
}

// restarts say what followed the start of a controller in mid-roll.
func (r *run) restarts() report.Table {
	table := report.Table{Words: 1, Head: []string{"", "nodes", "caches full after", "first write after", "writes repeated"}}
	for _, m := range r.Results {
		if m.Restart != nil {
			table.Rows = append(table.Rows, []string{
				rowOf(m.Row).Title, strconv.Itoa(m.Nodes), fmt.Sprintf("%.2f", m.Restart.CachesFull), fmt.Sprintf("%.2f", m.Restart.FirstWrite), strconv.Itoa(m.Restart.Repeated),
			})
		}
	}
	return table
}

// figure shows how time and CPU grow with the number of nodes.
func (r *run) figure() report.Figure {
	figure := report.Figure{X: "nodes", Y: "seconds", Joined: true}
	for _, p := range []struct {
		title, scenario string
		number          func(result) float64
	}{
		{"create: wall", create, func(m result) float64 { return m.Wall }},
		{"roll at 10%: wall", roll, func(m result) float64 { return m.Wall }},
		{"roll at 10%: CPU of the controller", roll, func(m result) float64 { return m.ControllerCPU }},
	} {
		panel := report.Panel{Title: p.title}
		for _, w := range rows() {
			series := report.Series{Name: w.Title}
			for _, same := range r.repeats() {
				if m := same[0]; m.Row == w.Name && m.Scenario == p.scenario {
					series.Points = append(series.Points, report.Point{X: float64(m.Nodes), Y: over(same, p.number).median})
				}
			}
			panel.Series = append(panel.Series, series)
		}
		figure.Panels = append(figure.Panels, panel)
	}
	return figure
}

// document puts everything into the documents of a directory.
func (r *run) document(dir string) error {
	page := filepath.Join(dir, "benchmarks.md")
	document, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	sections, err := r.sections()
	if err != nil {
		return err
	}
	for name, text := range sections {
		if document, err = report.Replace(document, name, text); err != nil {
			return fmt.Errorf("%s: %w", page, err)
		}
	}
	if r.slow() {
		return os.WriteFile(page, document, 0o644)
	}
	images := filepath.Join(dir, "images")
	if err := r.write(images, "benchmarks"); err != nil {
		return err
	}
	// The tables stand in the page itself, and all numbers in the other file.
	for _, ending := range []string{".md", ".txt"} {
		if err := os.Remove(filepath.Join(images, "benchmarks"+ending)); err != nil {
			return err
		}
	}
	return os.WriteFile(page, document, 0o644)
}

// sections are the parts of the page that are written from the results. A run on nodes that take time has one of its own.
func (r *run) sections() (map[string]string, error) {
	if r.slow() {
		return map[string]string{"slow-nodes": r.setting() + "\n" + r.slowTable().Markdown()}, nil
	}
	profiles, err := r.profiles()
	const plot = "\n![Time and CPU by the number of nodes](images/benchmarks.svg)\n"
	return map[string]string{
		"setting": r.setting() + plot, "bounds": r.faster() + "\n" + r.boundTable().Markdown(), "server": r.serverTable().Markdown() + "\n" + r.servedTable().Markdown(), "profiles": profiles,
		"goals": r.goalTable().Markdown(), "results": r.table().Markdown(), "restarts": r.restarts().Markdown(),
	}, err
}

// slow is whether things take time on the simulated nodes.
func (r *run) slow() bool { return !slices.Equal(r.Profile, simkubelet.Fast().Args()) }

// slowTable compares changes in place with recreating, where both take the nodes time.
func (r *run) slowTable() report.Table {
	table := report.Table{Words: 2, Head: []string{"", "scenario", "nodes", "wall", "over recreating", "status", "CPU", "API server CPU"}}
	for _, same := range r.repeats() {
		m, wall, beside := same[0], func(m result) float64 { return m.Wall }, ""
		if m.Row == inPlaceRow {
			beside = spreadOf(r.ofRounds(compared(inPlaceRow, advancedRow, m.Scenario, wall), m.Nodes)).format("%.2f")
		}
		table.Rows = append(table.Rows, []string{
			rowOf(m.Row).Title, m.Scenario, strconv.Itoa(m.Nodes), over(same, wall).format("%.1f"), beside, over(same, func(m result) float64 { return m.Whole }).format("%.1f"),
			over(same, func(m result) float64 { return m.ControllerCPU }).format("%.2f"), over(same, func(m result) float64 { return m.APIServerCPU }).format("%.1f"),
		})
	}
	return table
}

// setting is what was measured on.
func (r *run) setting() string {
	m := r.Machine
	return fmt.Sprintf("Measured on %s, Everynode of commit %s: %d cores, %g GiB of memory, Linux %s, %s, Kubernetes %s. The simulated nodes: `%s`.\n",
		m.Day, cmp.Or(m.Commit, "unknown"), m.Cores, m.MemoryGiB, m.Kernel, m.Go, m.Kubernetes, strings.Join(r.Profile, " "))
}

func TestGoals(t *testing.T) {
	beats, silence := 1000, 6
	r := &run{Results: []result{
		{Row: floorRow, Nodes: largest, Scenario: create, Wall: 20},
		{Row: everynodeRow, Nodes: largest, Scenario: create, Wall: 23},
		{Row: everynodeRow, Nodes: middle, Scenario: roll, ControllerCPU: 1, Whole: 10, Requests: map[string]int{setStatuses: 30}},
		{Row: everynodeRow, Nodes: largest, Scenario: roll, ControllerCPU: 10, Whole: 100, PeakMemory: 50, Requests: map[string]int{reads: 7}},
		{Row: nativeRow, Nodes: largest, Scenario: roll, ControllerCPU: 60, PeakMemory: 100},
		{Row: everynodeRow, Nodes: largest, Scenario: restart, Restart: &restarted{CachesFull: 16, FirstWrite: 17, Repeated: 1}},
		{Row: everynodeRow, Nodes: largest, Scenario: idle, Whole: 60, ControllerCPU: 0.6, NodeWrites: &beats},
		{Row: advancedRow, Nodes: largest, Scenario: idle, Whole: 60, ControllerCPU: 0.06, NodeWrites: &silence},
	}}
	rows := r.goalTable().Rows
	ours := rowOf(everynodeRow).Title
	for what, want := range map[string]string{
		"create, wall over floor: " + ours + " 1000":                                                   " not measured",
		"create, wall over floor: " + ours + " 5000":                                                   "1.15 met",
		"controller CPU of a roll, native over ours: " + ours + " 5000":                                "6.00 met",
		"controller CPU of a roll per node, relative to the value with 1,000 nodes: " + ours + " 5000": "2.00 **missed**",
		"peak memory over the native controller's: " + ours + " 5000":                                  "0.50 met",
		"writes of pods in a roll, more or less than needed: " + ours + " 1000":                        "2000.00 **missed**",
		"status writes of the set per second of a roll: " + ours + " 1000":                             "3.00 **missed**",
		"restart in mid-roll, seconds from full caches to the first write: " + ours + " 5000":          "1.00 met",
		"restart in mid-roll, writes of pods that were repeated: " + ours + " 5000":                    "1.00 **missed**",
		"idle, percent of one core: " + ours + " 5000":                                                 "1.00 **missed**",
		"idle, percent of one core: " + rowOf(advancedRow).Title + " 5000":                             " not measured",
		"in-place roll, wall over our recreate roll 5000":                                              " not measured",
	} {
		if !slices.ContainsFunc(rows, func(row []string) bool { return row[0]+" "+row[1] == what && row[3]+" "+row[4] == want }) {
			t.Errorf("%s: %s was to be expected in\n%s", what, want, r.goalTable().Markdown())
		}
	}
	if column := slices.Index(r.table().Head, "reads"); r.table().Rows[3][column] != "7" {
		t.Errorf("7 reads are not in\n%s", r.table().Markdown())
	}
	if lines := r.table().Rows; len(lines) != len(r.Results) || lines[1][4] != "1.15" || !slices.Contains(lines[7], "6") || !slices.Contains(lines[0], "unknown") {
		t.Errorf("the results are\n%s", r.table().Markdown())
	}
	if _, err := r.figure().SVG(); err != nil {
		t.Error(err)
	}
}

// TestDocument: the page has a place for everything, and what is written twice is written alike.
func TestDocument(t *testing.T) {
	dir := t.TempDir()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "benchmarks.md"))
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "benchmarks.md")
	if err := os.WriteFile(name, page, 0o600); err != nil {
		t.Fatal(err)
	}
	written := func(r *run) string {
		if err := r.document(dir); err != nil {
			t.Fatal(err)
		}
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(page)
	}
	slow := newRun(t, settings{simulated: simkubelet.Realistic()})
	slow.Results = []result{{Row: advancedRow, Nodes: 200, Scenario: roll, Wall: 40}, {Row: inPlaceRow, Nodes: 200, Scenario: roll, Wall: 10}}
	beside := written(slow)
	if !strings.Contains(beside, "--sim-image-pull=2s") || !strings.Contains(beside, "| 10.0 | 0.25 |") || strings.Contains(beside, "| 40.0 | 1") {
		t.Errorf("of nodes that take time the page says\n%s", beside)
	}
	before, _, _ := strings.Cut(beside, "<!-- slow-nodes: begin -->")
	if !strings.HasPrefix(string(page), before) {
		t.Error("nodes that take time have changed the other tables")
	}
	r := newRun(t, smoke())
	r.Machine.Commit = "5fa849d"
	r.Results = []result{{Row: everynodeRow, Nodes: 200, Scenario: restart, Wall: 4, Restart: &restarted{CachesFull: 15, FirstWrite: 15.5}}}
	first := written(r)
	parts := []string{"Everynode of commit 5fa849d", "No goal was missed that a profile", "--sim-image-pull=2s"}
	for _, part := range append(parts, r.setting(), r.goalTable().Markdown(), r.boundTable().Markdown(), r.faster(), r.table().Markdown(), r.restarts().Markdown()) {
		if !strings.Contains(first, part) {
			t.Errorf("the page lacks\n%s", part)
		}
	}
	if first != written(r) {
		t.Error("the same numbers make another page")
	}
	files, err := filepath.Glob(filepath.Join(dir, "images", "*"))
	if err != nil || len(files) != 2 {
		t.Errorf("beside the page are %v, %v", files, err)
	}
}
