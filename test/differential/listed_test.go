// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"everynode.dev/everynode/test/report"
)

var update = flag.Bool("update", false, "write the differences that are accepted into docs/reliability.md")

// TestDifferencesAreListed: docs/reliability.md lists the differences that are accepted, all of them, with their reasons.
func TestDifferencesAreListed(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "reliability.md")
	document, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want, err := report.Replace(document, "differences", listed())
	switch {
	case err != nil:
		t.Fatal(err)
	case bytes.Equal(document, want):
	case *update:
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s lists other differences than are accepted: run this test with -args -update, and read the diff", path)
	}
}

func listed() string {
	table := report.Table{Words: 2, Head: []string{"difference", "why", "steps in 1,000, at most"}}
	for _, d := range differences() {
		table.Rows = append(table.Rows, []string{d.name, d.reason, fmt.Sprint(d.most)})
	}
	return table.Markdown()
}

// TestDifferencesAreFew: a difference that is accepted more often than it may be is told.
func TestDifferencesAreFew(t *testing.T) {
	for _, d := range differences() {
		for _, extra := range []int{0, 1} {
			count := &tally{steps: 1000, seen: map[string]int{}, ended: map[string]int{
				same: 999 - d.most - extra, d.name: d.most, "another one, " + d.name: extra,
			}}
			for kind := range kinds() {
				count.seen[kind] = 1
			}
			complaints := count.complaints()
			if len(complaints) != extra || extra == 1 && !strings.Contains(complaints[0], d.name) {
				t.Errorf("%d of 1,000 steps with %q: %q", d.most+extra, d.name, complaints)
			}
		}
	}
}
