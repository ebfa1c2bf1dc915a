// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sort puts the results in the order of a full run: by size, and each size by rows. Whatever order the sizes were measured in, the lines of the
// plot go from left to right.
func (r *run) sort() {
	order := rowNames()
	slices.SortStableFunc(r.Results, func(a, b result) int {
		return cmp.Or(cmp.Compare(a.Nodes, b.Nodes), cmp.Compare(slices.Index(order, a.Row), slices.Index(order, b.Row)))
	})
}

// loaded reads what runs have left in files, with commas between them.
func loaded(files string) (*run, error) {
	var all *run
	var first string
	for _, file := range listed(files, "") {
		raw, err := os.ReadFile(file)
		r := &run{}
		if err = errors.Join(err, json.Unmarshal(raw, r)); err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		r.dirs = slices.Repeat([]string{filepath.Dir(file)}, r.runs())
		if all == nil {
			all, first = r, file
		} else if err := all.add(r); err != nil {
			return nil, fmt.Errorf("%s and %s are not of one measurement: %w", first, file, err)
		}
	}
	if all == nil {
		return nil, errors.New("no file is named: write one, or several with commas between them")
	}
	return all, nil
}

// add takes over what another run has measured of the same thing on the same machine. A size belongs to one run, so that ratios are of one run.
func (r *run) add(other *run) error {
	if err := r.differs(other); err != nil {
		return err
	}
	runs := r.runs()
	for _, m := range r.Results {
		if slices.ContainsFunc(other.Results, func(o result) bool { return o.Nodes == m.Nodes }) {
			return fmt.Errorf("both have measured %d nodes; give one of them, since ratios hold within one run only", m.Nodes)
		}
	}
	for _, m := range other.Results {
		m.Run += runs
		r.Results = append(r.Results, m)
	}
	r.dirs = append(r.dirs, other.dirs...)
	if day := other.Machine.Day; !strings.Contains(r.Machine.Day, day) {
		r.Machine.Day += " and " + day
	}
	return nil
}

// runs is how many there are in one.
func (r *run) runs() int {
	runs := 1
	for _, m := range r.Results {
		runs = max(runs, m.Run+1)
	}
	return runs
}

// differs names everything in which two runs differ that have to be alike.
func (r *run) differs(other *run) error {
	a, b := r.Machine, other.Machine
	var errs []error
	for _, part := range []struct {
		what string
		a, b any
	}{
		{"the number of cores", a.Cores, b.Cores},
		{"the memory in GiB", a.MemoryGiB, b.MemoryGiB},
		{"the kernel", a.Kernel, b.Kernel},
		{"the version of Go", a.Go, b.Go},
		{"the version of Kubernetes", a.Kubernetes, b.Kubernetes},
		{"the commit of Everynode", cmp.Or(a.Commit, "unknown"), cmp.Or(b.Commit, "unknown")},
		{"the profile of the simulated nodes", strings.Join(r.Profile, " "), strings.Join(other.Profile, " ")},
		{"the time that was idle", r.Idle, other.Idle},
	} {
		if part.a != part.b {
			errs = append(errs, fmt.Errorf("%s is %v in one and %v in the other", part.what, part.a, part.b))
		}
	}
	return errors.Join(errs...)
}

// TestMerged: several runs become one, in the order of one, and no ratio is of two of them.
func TestMerged(t *testing.T) {
	dir := t.TempDir()
	save := func(name string, edit func(*run), results ...result) string {
		r := &run{Machine: machine{Cores: 2, Commit: "abc", Day: "2026-01-01"}, Profile: []string{"fast"}, Results: results}
		if edit != nil {
			edit(r)
		}
		raw, err := json.Marshal(r)
		file := filepath.Join(dir, name)
		if err = errors.Join(err, os.WriteFile(file, raw, 0o600)); err != nil {
			t.Fatal(err)
		}
		return file
	}
	of := func(row string, nodes int) result {
		return result{Row: row, Nodes: nodes, Scenario: roll, ControllerCPU: float64(nodes)}
	}
	first := save("first", nil, of(nativeRow, 5000), of(floorRow, 5000), of(everynodeRow, 5000))
	second := save("second", func(r *run) { r.Machine.Day = "2026-01-02" }, of(everynodeRow, 1000), of(floorRow, 1000))
	r, err := loaded(first + "," + second)
	if err != nil {
		t.Fatal(err)
	}
	r.sort()
	var order []string
	for _, m := range r.Results {
		order = append(order, fmt.Sprintf("%d %s", m.Nodes, m.Row))
	}
	if want := []string{"1000 floor", "1000 everynode", "5000 floor", "5000 native", "5000 everynode"}; !slices.Equal(order, want) {
		t.Errorf("the order is %q", order)
	}
	if len(r.dirs) != 2 || r.Results[0].Run != 1 || r.Results[4].Run != 0 {
		t.Errorf("the runs are mixed up: %+v", r)
	}
	if r.Machine.Day != "2026-01-01 and 2026-01-02" {
		t.Errorf("measured on %s", r.Machine.Day)
	}
	if ratio, ok := perNode(everynodeRow)(r, largest); ok {
		t.Errorf("a ratio of two runs is %g", ratio)
	}
	if ratio, ok := perNode(everynodeRow)(&run{Results: []result{of(everynodeRow, 1000), of(everynodeRow, 5000)}}, largest); !ok || ratio != 1 {
		t.Errorf("the ratio of one run is %g, %v", ratio, ok)
	}
	for what, files := range map[string]string{
		"both have measured 5000 nodes":                                           first + "," + first,
		"the commit of Everynode is abc in one and def in the other":              first + "," + save("third", func(r *run) { r.Machine.Commit = "def" }, of(floorRow, 200)),
		"the profile of the simulated nodes is fast in one and slow in the other": first + "," + save("fourth", func(r *run) { r.Profile = []string{"slow"} }, of(floorRow, 200)),
		"the commit of Everynode is abc in one and unknown in the other":          first + "," + save("old", func(r *run) { r.Machine.Commit = "" }, of(floorRow, 200)),
		"no file is named": ",",
		"reading":          filepath.Join(dir, "nowhere"),
	} {
		if _, err := loaded(files); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
