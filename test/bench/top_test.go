// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"everynode.dev/everynode/test/harness"
)

// shown is how many packages are shown of a profile.
const shown = 12

// share is what a package has of a profile, in nanoseconds.
type share struct {
	name string
	// own is the time in the package and in what it calls of Go's own packages, so that each sample is that of one package; all is the time
	// with the package anywhere on the stack.
	own, all int64
	// function is the one of the package that is on the stack for longest.
	function string
}

// shares are those of all packages, those with the most of their own first.
func shares(p *profile.Profile) []share {
	own, all, functions := map[string]int64{}, map[string]int64{}, map[string]map[string]int64{}
	for _, sample := range p.Sample {
		time := sample.Value[len(sample.Value)-1]
		charged, seen := "", map[string]bool{}
		for _, name := range stack(sample) {
			in := packageOf(name)
			if functions[in] == nil {
				functions[in] = map[string]int64{}
			}
			if !seen[name] {
				functions[in][name] += time
			}
			if !seen[in] {
				all[in] += time
			}
			seen[name], seen[in] = true, true
			if charged == "" && !standard(in) {
				charged = in
			}
		}
		if charged == "" { // the garbage collector, for one
			charged = "Go's own"
			all[charged] += time
		}
		own[charged] += time
	}
	var list []share
	for name, time := range own {
		list = append(list, share{name, time, all[name], longest(functions[name])})
	}
	slices.SortFunc(list, func(a, b share) int { return cmp.Or(cmp.Compare(b.own, a.own), cmp.Compare(a.name, b.name)) })
	return list
}

// stack are the functions of a sample, the innermost first.
func stack(sample *profile.Sample) (names []string) {
	for _, location := range sample.Location {
		for _, line := range location.Line {
			if line.Function != nil {
				names = append(names, line.Function.Name)
			}
		}
	}
	return names
}

// longest is the function with the most, without its package.
func longest(functions map[string]int64) string {
	best := ""
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		if best == "" || functions[name] > functions[best] {
			best = name
		}
	}
	return strings.TrimPrefix(strings.TrimPrefix(best, packageOf(best)), ".")
}

// packageOf is the path of the package of a function: what is before the first point after the last slash.
func packageOf(function string) string {
	path, _, _ := strings.Cut(function, "[") // of a generic one its types, which have slashes and points, too
	last := strings.LastIndex(path, "/") + 1
	name, _, _ := strings.Cut(path[last:], ".")
	return path[:last] + name
}

// standard is whether a package is one of Go's own: the first part of another one's path is a domain.
func standard(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return !strings.Contains(first, ".")
}

// top is what a profile says, in lines.
func top(p *profile.Profile) string {
	var count, whole int64
	for _, sample := range p.Sample {
		count += sample.Value[0]
		whole += sample.Value[len(sample.Value)-1]
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d samples, %.2f s of CPU in %.1f s\n   own    all  package, and its function with the most\n",
		count, time.Duration(whole).Seconds(), time.Duration(p.DurationNanos).Seconds())
	of := func(part int64) string { return fmt.Sprintf("%5.1f%%", percent*float64(part)/float64(max(whole, 1))) }
	list := shares(p)
	for _, s := range list[:min(shown, len(list))] {
		fmt.Fprintln(&b, strings.TrimRight(of(s.own)+" "+of(s.all)+"  "+s.name+" "+s.function, " "))
	}
	return b.String()
}

// profiles are the profiles of the rows of goals that were missed, as far as a profile can say why.
func (r *run) profiles() (string, error) {
	var b strings.Builder
	done := map[string]bool{}
	for _, g := range goals() {
		for _, nodes := range g.at {
			if s := spreadOf(r.ofRounds(g.value, nodes)); s.of == 0 || g.met(s.median) {
				continue
			}
			for _, row := range g.rows {
				m, ok := r.of(row, nodes, g.scenario)
				title := fmt.Sprintf("**%s, %s, %d nodes**", rowOf(row).Title, g.scenario, nodes)
				if !ok || done[title] {
					continue
				}
				done[title] = true
				text, err := r.profilesOf(m)
				if err != nil {
					return "", err
				}
				b.WriteString(title + "\n\n" + text)
			}
		}
	}
	return cmp.Or(b.String(), "No goal was missed that a profile could say something about.\n"), nil
}

// profilesOf are what there is of one result.
func (r *run) profilesOf(m result) (string, error) {
	names := []string{apiServer}
	if rowOf(m.Row).managed() {
		names = []string{harness.ManagerComponent, apiServer}
	}
	var b strings.Builder
	for _, of := range names {
		raw, err := os.ReadFile(profileFile(r.dir(m.Run), m, of))
		if errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(&b, "No profile of %s was taken (`BENCH_PROFILE=1` has one taken).\n\n", of)
			continue
		}
		if err != nil {
			return "", err
		}
		p, err := profile.ParseData(raw)
		if err != nil {
			return "", fmt.Errorf("reading the profile of %s: %w", of, err)
		}
		fmt.Fprintf(&b, "```text\n%s: %s```\n\n", of, top(p))
	}
	return b.String(), nil
}

// dir is the directory of what belongs to one of the runs.
func (r *run) dir(number int) string {
	if number < len(r.dirs) {
		return r.dirs[number]
	}
	return ""
}

// sampled is a profile of stacks, the innermost function first, with so many samples of 10 ms.
func sampled(stacks map[string]int64) *profile.Profile {
	p := &profile.Profile{
		SampleType:    []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		DurationNanos: int64(10 * time.Second),
	}
	functions := map[string]*profile.Location{}
	for _, stack := range slices.Sorted(maps.Keys(stacks)) {
		const each = int64(10 * time.Millisecond)
		sample := &profile.Sample{Value: []int64{stacks[stack], stacks[stack] * each}}
		for name := range strings.SplitSeq(stack, " ") {
			if functions[name] == nil {
				id := uint64(len(functions) + 1)
				f := &profile.Function{ID: id, Name: name}
				functions[name] = &profile.Location{ID: id, Line: []profile.Line{{Function: f}}}
				p.Function, p.Location = append(p.Function, f), append(p.Location, functions[name])
			}
			sample.Location = append(sample.Location, functions[name])
		}
		p.Sample = append(p.Sample, sample)
	}
	return p
}

func TestTop(t *testing.T) {
	got := top(sampled(map[string]int64{
		"runtime.mallocgc a.example/b.(*T).Make a.example/c.Do net/http.Serve": 30,
		"a.example/c.List[go.shape.d.example/e.F] a.example/c.Do":              10,
		"a.example/c.Do a.example/c.Do":                                        20,
		"runtime.scanObject runtime.gcBgMarkWorker":                            40,
	}))
	const want = `100 samples, 1.00 s of CPU in 10.0 s
   own    all  package, and its function with the most
 40.0%  40.0%  Go's own
 30.0%  30.0%  a.example/b (*T).Make
 30.0%  60.0%  a.example/c Do
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestProfiles: the page shows the profiles of what was missed, and of nothing else, and says where there is none.
func TestProfiles(t *testing.T) {
	dir := t.TempDir()
	missed := result{Row: inPlaceRow, Nodes: largest, Scenario: roll, Wall: 15}
	r := &run{dirs: []string{dir}, Results: []result{
		missed, {Row: advancedRow, Nodes: largest, Scenario: roll, Wall: 10},
		{Row: floorRow, Nodes: middle, Scenario: create, Wall: 10}, {Row: everynodeRow, Nodes: middle, Scenario: create, Wall: 10},
	}}
	file := profileFile(dir, missed, harness.ManagerComponent)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	to, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(sampled(map[string]int64{"a.example/b.Send": 7}).Write(to), to.Close()); err != nil {
		t.Fatal(err)
	}
	text, err := r.profiles()
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"**Everynode, Advanced, in place, roll, 5000 nodes**", "manager: 7 samples, 0.07 s of CPU in 10.0 s", "100.0% 100.0%  a.example/b Send", "No profile of kube-apiserver was taken", "**Everynode, Advanced, recreate, roll, 5000 nodes**"} {
		if strings.Count(text, part) == 0 {
			t.Errorf("%q is not in\n%s", part, text)
		}
	}
	if strings.Contains(text, ", create,") {
		t.Errorf("there is a profile of what was not missed:\n%s", text)
	}
	if none, err := (&run{}).profiles(); err != nil || none != "No goal was missed that a profile could say something about.\n" {
		t.Errorf("of nothing: %q, %v", none, err)
	}
}
