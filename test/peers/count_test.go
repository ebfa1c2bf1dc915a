// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestRowsAreCounted: docs/reliability.md says how many rows there are, and in how many Everynode does something else.
func TestRowsAreCounted(t *testing.T) {
	page, err := os.ReadFile("../../docs/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	rows, others := [2]int{}, [2]int{}
	for i, file := range []string{"testdata/openkruise.txt", "testdata/openyurt.txt"} {
		for _, r := range readTable(t, file) {
			if rows[i]++; r.does != "" {
				others[i]++
			}
		}
	}
	for _, text := range []string{
		fmt.Sprintf("%d rows of OpenKruise, %d of OpenYurt", rows[0], rows[1]), fmt.Sprintf("in %d rows of OpenKruise and %d of OpenYurt", others[0], others[1]),
	} {
		if !strings.Contains(string(page), text) {
			t.Errorf("docs/reliability.md does not say: %s", text)
		}
	}
}
