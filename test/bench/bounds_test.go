// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"slices"
	"strconv"
	"testing"

	"everynode.dev/everynode/test/report"
)

// boundTable has the ratios that tell what bounds the goals, so that what the page says of that can be checked with each run.
func (r *run) boundTable() report.Table {
	wall := func(m result) float64 { return m.Wall }
	cpu := func(m result) float64 { return m.ControllerCPU }
	server := func(m result) float64 { return m.APIServerCPU }
	table := report.Table{Words: 1, Head: []string{"", strconv.Itoa(middle) + " nodes", strconv.Itoa(largest) + " nodes"}}
	for _, line := range []struct {
		what  string
		value func(*run, int) (float64, bool)
	}{
		{"create, wall: native controller over floor", overFloor(nativeRow, create)},
		{"create, CPU of the API server: Everynode, apps/v1, over floor", compared(everynodeRow, floorRow, create, server)},
		{"create, CPU of the API server: Everynode, Advanced, recreate, over floor", compared(advancedRow, floorRow, create, server)},
		{"create, CPU of the API server: Everynode, Advanced, in place, over floor in place", compared(inPlaceRow, floorInPlaceRow, create, server)},
		{"roll, wall: native controller over floor", overFloor(nativeRow, roll)},
		{"roll, wall: floor in place over our recreate roll", compared(floorInPlaceRow, advancedRow, roll, wall)},
		{"roll, CPU of the API server: Everynode, apps/v1, over floor", compared(everynodeRow, floorRow, roll, server)},
		{"roll, CPU of the API server: Everynode, Advanced, recreate, over floor", compared(advancedRow, floorRow, roll, server)},
		{"roll, CPU of the API server: floor in place over floor", compared(floorInPlaceRow, floorRow, roll, server)},
		{"roll, CPU: native controller over the floor's client", compared(nativeRow, floorRow, roll, cpu)},
		{"roll, CPU: Everynode, apps/v1, over the floor's client", compared(everynodeRow, floorRow, roll, cpu)},
	} {
		cells := []string{line.what}
		for _, nodes := range []int{middle, largest} {
			shown := "not measured"
			if s := spreadOf(r.ofRounds(line.value, nodes)); s.of > 0 {
				shown = s.format("%.2f")
			}
			cells = append(cells, shown)
		}
		table.Rows = append(table.Rows, cells)
	}
	return table
}

func TestBounds(t *testing.T) {
	r := &run{Results: []result{
		{Row: floorInPlaceRow, Nodes: largest, Scenario: roll, Wall: 12, APIServerCPU: 30},
		{Row: floorRow, Nodes: largest, Scenario: roll, Wall: 9, APIServerCPU: 20},
		{Row: advancedRow, Nodes: largest, Scenario: roll, Wall: 10, APIServerCPU: 21},
	}}
	lines := r.boundTable().Rows
	for _, want := range [][]string{
		{"roll, wall: floor in place over our recreate roll", "not measured", "1.20"},
		{"roll, CPU of the API server: floor in place over floor", "not measured", "1.50"},
		{"roll, CPU of the API server: Everynode, Advanced, recreate, over floor", "not measured", "1.05"},
		{"create, wall: native controller over floor", "not measured", "not measured"},
	} {
		if !slices.ContainsFunc(lines, func(line []string) bool { return slices.Equal(line, want) }) {
			t.Errorf("%q is not in %q", want, lines)
		}
	}
}
