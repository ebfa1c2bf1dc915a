// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/procfs"

	"everynode.dev/everynode/localplane"
)

// run is everything that was measured in one go.
type run struct {
	Machine machine  `json:"machine"`
	Profile []string `json:"profile"` // of the simulated nodes
	Idle    float64  `json:"idleSeconds"`
	Results []result `json:"results"`

	dirs []string // where the profiles are, by the number of the run
}

// machine is what everything was measured on.
type machine struct {
	Cores      int     `json:"cores"`
	MemoryGiB  float64 `json:"memoryGiB"`
	Kernel     string  `json:"kernel"`
	Go         string  `json:"go"`
	Kubernetes string  `json:"kubernetes"`
	// Commit is what the manager says that it was built from.
	Commit string `json:"commit,omitempty"`
	Day    string `json:"day"`
}

// result is one scenario of one row. Times are in seconds, amounts of memory in bytes.
type result struct {
	Row      string `json:"row"`
	Nodes    int    `json:"nodes"`
	Scenario string `json:"scenario"`
	// Run tells the runs apart that one table is of.
	Run int `json:"run,omitempty"`
	// Round counts the repetitions within a run. Ratios are of one round.
	Round int `json:"round,omitempty"`
	// Wall is until all pods were as they should be, Whole until the status of the set said so, too. CPU and memory are of
	// Whole; requests and events are those until all was calm again.
	Wall  float64 `json:"wallSeconds"`
	Whole float64 `json:"wholeSeconds"`
	// Cycle is that of a single node, of a floor's roll.
	Cycle         float64 `json:"cycleSeconds,omitempty"`
	Unreachable   int     `json:"unreachable,omitempty"`
	ControllerCPU float64 `json:"controllerCPUSeconds"`
	APIServerCPU  float64 `json:"apiServerCPUSeconds"`
	PeakMemory    uint64  `json:"controllerPeakBytes"`
	Read          uint64  `json:"controllerReadBytes"`
	// Cores are those of the whole machine. Runs that did not look at them have none.
	Cores *coreShare `json:"cores,omitempty"`
	// Requests are those of the controller by kind, and Rejected those that were answered with 429.
	Requests map[string]int `json:"requests"`
	Rejected int            `json:"rejected,omitempty"`
	// Served are the requests of all clients, by verb and resource, without watches.
	Served map[string]int `json:"served,omitempty"`
	// Server are the seconds of the API server's CPU by what they were for, from its profile: that of the scenario, and until all was calm.
	Server map[string]float64 `json:"apiServerParts,omitempty"`
	// Watched are the events that the API server sent to all watchers, by resource, and PodEvents how many each watcher of pods was sent
	// that watches all of them.
	Watched   map[string]int `json:"watchEvents"`
	PodEvents int            `json:"podEvents"`
	// EndedWatches are those of pods that the API server has ended because their readers fell behind: then what the controller received is
	// not known.
	EndedWatches int `json:"endedWatches,omitempty"`
	// EndedOf are the same by what they watched, from the API server's log.
	EndedOf map[string]int `json:"endedWatchesOf,omitempty"`
	// NodeWrites is how often nodes were written, by whomever: heartbeats, most of all. Runs that did not count them have none.
	NodeWrites *int       `json:"nodeWrites,omitempty"`
	Restart    *restarted `json:"restart,omitempty"`
}

// coreShare is which part of all cores was busy, and which part of them was another machine's.
type coreShare struct {
	Busy   float64 `json:"busy"`
	Stolen float64 `json:"stolen"`
}

// restarted is what followed a start in mid-roll, in seconds after it.
type restarted struct {
	CachesFull float64 `json:"cachesFullSeconds"`
	FirstWrite float64 `json:"firstWriteSeconds"`
	// Repeated is how many writes of pods the new controller sent beyond those that were left to be done. What the old one had sent when it
	// was killed, and what died with it, is none of its.
	Repeated int `json:"repeated"`

	done map[string]int // by kind, before the start
}

func newRun(t *testing.T, s settings) *run {
	t.Helper()
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		t.Fatal(err)
	}
	memory, err := proc.Meminfo()
	if err != nil || memory.MemTotalBytes == nil {
		t.Fatalf("reading the size of the memory: %v", err)
	}
	kernel, err := proc.SysctlStrings("kernel.osrelease")
	if err != nil {
		t.Fatal(err)
	}
	const gib = 1 << 30
	return &run{
		Machine: machine{
			Cores: runtime.NumCPU(), MemoryGiB: math.Round(float64(*memory.MemTotalBytes) / gib), Kernel: strings.Join(kernel, " "),
			Go: runtime.Version(), Kubernetes: localplane.KubernetesVersion, Day: time.Now().Format(time.DateOnly),
		},
		Profile: s.simulated.Args(), Idle: s.idle.Seconds(),
	}
}

// of is the result of that row, size and scenario.
func (r *run) of(row string, nodes int, scenario string) (result, bool) {
	for _, found := range r.Results {
		if found.Row == row && found.Nodes == nodes && found.Scenario == scenario {
			return found, true
		}
	}
	return result{}, false
}

// floor is what a result is compared with: the wall of the same writes without any budget, or as many cycles of one node as a roll has
// steps, if that is longer.
func (r *run) floor(of result) (float64, bool) {
	under := rowOf(of.Row).under
	found, ok := r.of(under, of.Nodes, of.Scenario)
	if of.Scenario == create {
		return found.Wall, ok
	}
	rolled, measured := r.of(under, of.Nodes, roll)
	if !ok || !measured {
		return 0, false
	}
	return max(found.Wall, float64(steps(of.Nodes, of.Unreachable))*rolled.Cycle), true
}

// steps are how many nodes have to follow each other, at the least, in a roll at 10%: 10, and 19 with 5% of the nodes out of reach.
func steps(nodes, unreachable int) int {
	const tenth = 10
	at := (nodes+tenth-1)/tenth - unreachable
	return (nodes - unreachable + at - 1) / max(at, 1)
}

// judge is an error when writes are not those that are promised. The native controller promised nothing.
func (r result) judge() error {
	w := rowOf(r.Row)
	if r.Row == nativeRow {
		return nil
	}
	errs := []error{r.judgeWatchers()}
	for _, name := range []string{podCreates, podDeletes, podPatches, podStatuses} {
		want := r.wanted(w)[name]
		if r.Scenario == cut && name == podDeletes || r.Scenario == restart && r.Requests[name] > want {
			continue // the pods of cut nodes may be deleted, or not; and see Repeated
		}
		if r.Requests[name] != want {
			errs = append(errs, fmt.Errorf("requests of the kind %s: %d were sent, and %d are needed", name, r.Requests[name], want))
		}
	}
	if r.Restart != nil && r.Restart.Repeated > 0 {
		errs = append(errs, fmt.Errorf("%d writes of pods were repeated after the restart", r.Restart.Repeated))
	}
	if limit := statusLimit(r.Whole); r.Requests[setStatuses] > limit {
		errs = append(errs, fmt.Errorf("the status of the set was written %d times in %.1f s, and at most %d are promised", r.Requests[setStatuses], r.Whole, limit))
	}
	if r.Scenario == idle {
		if !r.beaten() {
			errs = append(errs, fmt.Errorf("not measured: %d nodes write their status about %.0f times in %.0f s, and what was counted is: %s", r.Nodes, heartbeats(r.Nodes, r.Whole), r.Whole, r.nodeWrites()))
		}
		for name, n := range r.Requests {
			if name != leases && name != reads {
				errs = append(errs, fmt.Errorf("idle, and %d requests of the kind %s", n, name))
			}
		}
	}
	return errors.Join(errs...)
}

// heartbeats are how often so many nodes write their status in that time: each every five minutes, as kubelets do.
func heartbeats(nodes int, seconds float64) float64 {
	const period = 300
	return float64(nodes) * seconds / period
}

// beaten is whether the nodes wrote their status about as often as kubelets do: an idle controller has to read that. Where so few writes
// are to be expected that it may be chance how many there are, they are not counted.
func (r result) beaten() bool {
	const least, few = 0.5, 30
	expected := heartbeats(r.Nodes, r.Whole)
	return expected < few || r.NodeWrites != nil && float64(*r.NodeWrites) >= least*expected
}

func (r result) nodeWrites() string {
	if r.NodeWrites == nil {
		return "unknown"
	}
	return strconv.Itoa(*r.NodeWrites)
}

// statusLimit is how often the status of the set may be written in that time: twice a second, and at the beginning.
func statusLimit(seconds float64) int { return 2*int(math.Ceil(seconds)) + 1 }

// wanted are the writes of pods that a scenario needs.
func (r result) wanted(w row) map[string]int {
	n := r.Nodes - r.Unreachable
	switch {
	case r.Scenario == idle:
		return nil
	case r.Scenario == create:
		return map[string]int{podCreates: n}
	case w.inPlace:
		return map[string]int{podPatches: n}
	default:
		return map[string]int{podCreates: n, podDeletes: n}
	}
}

// otherWatchers are those of all pods that a plane has without the controller: kube-controller-manager, the scheduler, the simulated
// kubelets, and this measurement. How many that are is seen from a floor, where there are no others.
const otherWatchers = 5

// received is how many events about pods the controller was sent: what was sent to all, without what was sent to the others.
func (r result) received() int { return r.Watched["pods"] - otherWatchers*r.PodEvents }

// judgeWatchers is an error when a floor, where nobody else watches, shows that otherWatchers is not what it should be. Some may not have
// been sent the last events yet.
func (r result) judgeWatchers() error {
	const late = 0.1
	if r.EndedWatches > 0 || !rowOf(r.Row).floor() || math.Abs(float64(r.received())) <= late*float64(r.PodEvents) {
		return nil
	}
	return fmt.Errorf("%d events about pods were sent, and one watcher was sent %d: the plane has not %d watchers of pods any more", r.Watched["pods"], r.PodEvents, otherWatchers)
}

// writes are all requests that are no reads.
func (r result) writes() int {
	sum := 0
	for name, n := range r.Requests {
		if name != reads {
			sum += n
		}
	}
	return sum
}

func (r result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "wall %.1f s, status after %.1f s, controller %.2f s and API server %.1f s of CPU, peak %s, %s read, %d rejected",
		r.Wall, r.Whole, r.ControllerCPU, r.APIServerCPU, megabytes(r.PeakMemory), megabytes(r.Read), r.Rejected)
	for _, m := range []map[string]int{r.Requests, r.Watched} {
		b.WriteString(";")
		for _, name := range slices.Sorted(maps.Keys(m)) {
			fmt.Fprintf(&b, " %s %d", name, m[name])
		}
	}
	fmt.Fprintf(&b, "; nodes written %s", r.nodeWrites())
	fmt.Fprintf(&b, "; about pods %d, of which the controller received %d", r.PodEvents, r.received())
	if r.EndedWatches > 0 {
		fmt.Fprintf(&b, "; %d watches were ended: %v", r.EndedWatches, r.EndedOf)
	}
	if r.Cycle > 0 {
		fmt.Fprintf(&b, "; cycle %.3f s", r.Cycle)
	}
	if r.Restart != nil {
		fmt.Fprintf(&b, "; caches full after %.2f s, first write after %.2f s, %d repeated", r.Restart.CachesFull, r.Restart.FirstWrite, r.Restart.Repeated)
	}
	return b.String()
}

func megabyte(bytes uint64) float64 {
	const mega = 1e6
	return float64(bytes) / mega
}

func megabytes(bytes uint64) string { return fmt.Sprintf("%.0f MB", megabyte(bytes)) }

func TestJudge(t *testing.T) {
	made := func(row, scenario string, edit func(*result)) result {
		r := result{Row: row, Nodes: 100, Scenario: scenario, Whole: 4.5, Requests: map[string]int{setStatuses: 11, leases: 3, events: 9, reads: 50}}
		maps.Copy(r.Requests, r.wanted(rowOf(row)))
		if edit != nil {
			edit(&r)
		}
		return r
	}
	set := func(kind string, n int) func(*result) { return func(r *result) { r.Requests[kind] = n } }
	beating := func(nodes, writes int) func(*result) {
		return func(r *result) {
			r.Nodes, r.Whole, r.NodeWrites, r.Requests = nodes, 60, &writes, map[string]int{leases: 2}
		}
	}
	quiet := func(r *result) { r.Requests = map[string]int{leases: 2, reads: 1} }
	for name, c := range map[string]struct {
		result  result
		refused bool
	}{
		"roll":                       {made(everynodeRow, roll, nil), false},
		"a pod created twice":        {made(everynodeRow, roll, set(podCreates, 101)), true},
		"a pod not deleted":          {made(everynodeRow, restart, set(podDeletes, 99)), true},
		"killed with deletes":        {made(everynodeRow, restart, set(podDeletes, 102)), false},
		"deletes repeated":           {made(everynodeRow, restart, func(r *result) { r.Restart = &restarted{Repeated: 2} }), true},
		"a pod patched":              {made(advancedRow, roll, set(podPatches, 1)), true},
		"too many statuses":          {made(everynodeRow, roll, set(setStatuses, 12)), true},
		"in place":                   {made(inPlaceRow, roll, nil), false},
		"in place with two":          {made(inPlaceRow, roll, set(podStatuses, 100)), true},
		"in place by replacement":    {made(inPlaceRow, roll, set(podDeletes, 1)), true},
		"create":                     {made(advancedRow, create, nil), false},
		"create in place":            {made(inPlaceRow, create, nil), false},
		"create and delete":          {made(everynodeRow, create, set(podDeletes, 1)), true},
		"idle":                       {made(everynodeRow, idle, quiet), false},
		"idle with an event":         {made(everynodeRow, idle, nil), true},
		"idle with heartbeats":       {made(everynodeRow, idle, beating(5000, 501)), false},
		"idle without heartbeats":    {made(everynodeRow, idle, beating(5000, 1)), true},
		"idle with few heartbeats":   {made(everynodeRow, idle, beating(5000, 499)), true},
		"idle, a few nodes":          {made(everynodeRow, idle, beating(100, 0)), false},
		"idle, heartbeats unknown":   {made(everynodeRow, idle, func(r *result) { quiet(r); r.Nodes, r.Whole = 1000, 60 }), true},
		"the floor itself":           {made(floorRow, roll, set(podCreates, 99)), true},
		"cut, with more deletes":     {made(everynodeRow, cut, set(podDeletes, 105)), false},
		"cut, with more creates":     {made(everynodeRow, cut, set(podCreates, 105)), true},
		"the native controller does": {made(nativeRow, roll, set(setStatuses, 1000)), false},
	} {
		if err := c.result.judge(); (err != nil) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReceived(t *testing.T) {
	floor := result{Row: floorRow, Nodes: 100, PodEvents: 600, Watched: map[string]int{"pods": 5*600 - 30}}
	if err := floor.judgeWatchers(); err != nil {
		t.Error(err)
	}
	if floor.Watched["pods"] += 600; floor.judgeWatchers() == nil {
		t.Error("another watcher was not noticed")
	}
	if floor.Row = nativeRow; floor.received() != 570 || floor.judgeWatchers() != nil {
		t.Errorf("a controller received %d events", floor.received())
	}
}

func TestFloor(t *testing.T) {
	r := &run{Results: []result{
		{Row: floorRow, Nodes: 1000, Scenario: create, Wall: 5},
		{Row: floorRow, Nodes: 1000, Scenario: roll, Wall: 11, Cycle: 1},
		{Row: floorRow, Nodes: 1000, Scenario: cut, Wall: 10},
	}}
	for _, c := range []struct {
		scenario    string
		unreachable int
		want        float64
	}{{create, 0, 5}, {roll, 0, 11}, {cut, 50, 19}} {
		if got, ok := r.floor(result{Row: everynodeRow, Nodes: 1000, Scenario: c.scenario, Unreachable: c.unreachable}); !ok || got != c.want {
			t.Errorf("the floor of %s is %g, and not %g", c.scenario, got, c.want)
		}
	}
	if got, ok := r.floor(result{Row: inPlaceRow, Nodes: 1000, Scenario: roll}); ok {
		t.Errorf("a floor that was not measured is %g", got)
	}
	if s := steps(1000, 0); s != 10 {
		t.Errorf("a roll at 10%% has %d steps", s)
	}
}
