// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"strings"
	"testing"

	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/cli/view"
)

// Where every node says something else, the first ones are told, and the others counted.
func TestWaitsAreCounted(t *testing.T) {
	var all []view.Wait
	for i := range 4 {
		all = append(all, view.Wait{Says: fmt.Sprintf("reason %d", i), Nodes: []string{fmt.Sprintf("node-%d", i)}})
	}
	if lines := waits(all, inspect.Rolling); len(lines) != 4 || !strings.HasPrefix(lines[3], "node-3: ") {
		t.Errorf("lines %q, want all four", lines)
	}
	all = append(all, view.Wait{Says: "a", Nodes: []string{"x", "y"}}, view.Wait{}, view.Wait{Says: "b", Nodes: []string{"z"}})
	lines := waits(all, inspect.Rolling)
	if len(lines) != 5 || !strings.HasPrefix(lines[4], "and 2 reasons more, on 3 nodes: ") {
		t.Errorf("lines %q, want four and the number of the others", lines)
	}
}
