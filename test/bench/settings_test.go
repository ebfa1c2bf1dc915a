// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/localplane/simkubelet"
	"everynode.dev/everynode/test/harness"
)

// row is who is measured.
type row struct {
	Name, Title string
	// under is the floor to compare it with; a floor has none.
	under      string
	controller harness.Controller // of DaemonSets of apps/v1
	advanced   bool               // the set is an Advanced DaemonSet
	inPlace    bool               // its pods are changed in place
	// user is who the controller is to the API server.
	user string
	// simulated is how long things take on the nodes of its plane.
	simulated simkubelet.Profile
}

const (
	nativeUser  = "system:serviceaccount:kube-system:daemon-set-controller"
	managerUser = "system:serviceaccount:everynode-system:everynode-manager"
	floorUser   = serviceAccountPrefix + namespace + ":" + floorAccount

	floorAccount = "floor"
)

// Names of rows.
const (
	floorRow        = "floor"
	floorInPlaceRow = "floor-in-place"
	nativeRow       = "native"
	everynodeRow    = "everynode"
	advancedRow     = "advanced"
	inPlaceRow      = "in-place"
)

// rows are all there are, in the order in which they are measured.
func rows() []row {
	return []row{
		{Name: floorRow, Title: "floor", user: floorUser},
		{Name: floorInPlaceRow, Title: "floor, in place", user: floorUser, inPlace: true},
		{Name: nativeRow, Title: "native controller", under: floorRow, user: nativeUser, controller: harness.Native},
		{Name: everynodeRow, Title: "Everynode, apps/v1", under: floorRow, user: managerUser, controller: harness.Everynode},
		{Name: advancedRow, Title: "Everynode, Advanced, recreate", under: floorRow, user: managerUser, advanced: true},
		{Name: inPlaceRow, Title: "Everynode, Advanced, in place", under: floorInPlaceRow, user: managerUser, advanced: true, inPlace: true},
	}
}

func (w row) floor() bool { return w.under == "" }

// component is the name of its process on the plane.
func (w row) component() string {
	if w.controller == harness.Native {
		return harness.NativeComponent
	}
	return harness.ManagerComponent
}

func rowNames() []string {
	var names []string
	for _, w := range rows() {
		names = append(names, w.Name)
	}
	return names
}

func rowsNamed(names ...string) []row {
	return slices.DeleteFunc(rows(), func(w row) bool { return !slices.Contains(names, w.Name) })
}

// rowOf is the row of that name.
func rowOf(name string) row {
	if found := rowsNamed(name); len(found) == 1 {
		return found[0]
	}
	return row{Name: name, Title: name}
}

// settings are what is measured.
type settings struct {
	sizes     []int
	rows      []row
	scenarios []string
	idle      time.Duration
	profile   bool // whether profiles are taken
	// repeat is how often all rows are measured, one after the other, with all sizes but the large ones.
	repeat int
	round  int // that of now
	// simulated is how long things take on the simulated nodes: unless told otherwise no time at all, and a restart in place as long as the
	// start of a pod.
	simulated simkubelet.Profile
}

// settingsOf reads them from the environment; what is not there is all of it.
func settingsOf(env func(string) string) (settings, error) {
	s := settings{}
	for _, text := range listed(env("BENCH_NODES"), "1000") {
		const least = 20 // of which 5% is a node
		n, err := strconv.Atoi(text)
		if err != nil || n < least {
			return s, fmt.Errorf("BENCH_NODES names %q: write numbers of nodes from %d on, such as 200,1000", text, least)
		}
		s.sizes = append(s.sizes, n)
	}
	names, err := chosen("BENCH_ROWS", env("BENCH_ROWS"), rowNames())
	if err != nil {
		return s, err
	}
	s.rows = rowsNamed(names...)
	var all []string
	for _, sc := range scenarios() {
		all = append(all, sc.name)
	}
	if s.scenarios, err = chosen("BENCH_SCENARIOS", env("BENCH_SCENARIOS"), all); err != nil {
		return s, err
	}
	if s.idle, err = time.ParseDuration(cmp.Or(env("BENCH_IDLE"), "60s")); err != nil || s.idle < time.Second {
		return s, fmt.Errorf("BENCH_IDLE is %q: write a time from 1s on, such as 60s", env("BENCH_IDLE"))
	}
	if s.repeat, err = strconv.Atoi(cmp.Or(env("BENCH_REPEAT"), "5")); err != nil || s.repeat < 1 {
		return s, fmt.Errorf("BENCH_REPEAT is %q: write how often everything is measured, such as 5", env("BENCH_REPEAT"))
	}
	if wanted := env("BENCH_PROFILE"); wanted != "" {
		if s.profile, err = strconv.ParseBool(wanted); err != nil {
			return s, fmt.Errorf("BENCH_PROFILE is %q: write 1 for profiles of the manager, beside the table", wanted)
		}
	}
	s.simulated, err = profileNamed(env("BENCH_PROFILE_NODES"))
	return s, err
}

// roundsOf is how often a size is measured: a large one takes long, and varies less.
func (s settings) roundsOf(nodes int) int {
	const few = 3
	if nodes > middle {
		return min(s.repeat, few)
	}
	return s.repeat
}

// repeated is whether a scenario is played in each round: those whose wall is compared are.
func repeated(scenario string) bool { return scenario == create || scenario == roll }

// profileNamed is a profile of the simulated nodes; that of no name has no delays.
func profileNamed(name string) (simkubelet.Profile, error) {
	known := simkubelet.Profiles()
	found, ok := known[cmp.Or(name, "fast")]
	if !ok {
		return found, fmt.Errorf("BENCH_PROFILE_NODES is %q: known are %s", name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
	}
	return found, nil
}

func listed(list, otherwise string) []string {
	return strings.FieldsFunc(cmp.Or(strings.TrimSpace(list), otherwise), func(r rune) bool { return r == ',' || r == ' ' })
}

// chosen are the names in a list, all if it is empty.
func chosen(variable, list string, all []string) ([]string, error) {
	names := listed(list, strings.Join(all, ","))
	for _, name := range names {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("%s names %q: known are %s", variable, name, strings.Join(all, ", "))
		}
	}
	return names, nil
}

func TestSettings(t *testing.T) {
	env := func(pairs ...string) func(string) string {
		return func(name string) string {
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i] == name {
					return pairs[i+1]
				}
			}
			return ""
		}
	}
	s, err := settingsOf(env())
	if err != nil || !slices.Equal(s.sizes, []int{1000}) || s.repeat != 5 || s.roundsOf(1000) != 5 || s.roundsOf(5000) != 3 || len(s.rows) != len(rows()) || len(s.scenarios) != len(scenarios()) || s.idle != time.Minute || s.simulated != simkubelet.Fast() {
		t.Errorf("of nothing: %+v, %v", s, err)
	}
	s, err = settingsOf(env("BENCH_NODES", "100, 300", "BENCH_ROWS", "everynode,native", "BENCH_SCENARIOS", "roll", "BENCH_IDLE", "5s", "BENCH_PROFILE", "1", "BENCH_PROFILE_NODES", "realistic", "BENCH_REPEAT", "2"))
	if err != nil || s.repeat != 2 || s.roundsOf(5000) != 2 || !s.profile || s.simulated != simkubelet.Realistic() || !slices.Equal(s.sizes, []int{100, 300}) || len(s.rows) != 2 || s.rows[0].Name != nativeRow || !slices.Equal(s.scenarios, []string{roll}) || s.idle != 5*time.Second {
		t.Errorf("of a part: %+v, %v", s, err)
	}
	for _, pair := range [][]string{
		{"BENCH_NODES", "many"}, {"BENCH_NODES", "0"}, {"BENCH_ROWS", "kruise"}, {"BENCH_SCENARIOS", "surge"}, {"BENCH_IDLE", "long"}, {"BENCH_IDLE", "0s"}, {"BENCH_PROFILE", "cpu"},
		{"BENCH_PROFILE_NODES", "slow"}, {"BENCH_REPEAT", "0"}, {"BENCH_REPEAT", "often"},
	} {
		if _, err := settingsOf(env(pair...)); err == nil || !strings.Contains(err.Error(), pair[0]) {
			t.Errorf("%v: %v", pair, err)
		}
	}
}
