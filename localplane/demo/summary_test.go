// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"flag"
	"os"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing them")

func TestSummary(t *testing.T) {
	s := &story{count: 30, version: "v1.37.1", cut: []string{"node-016", "node-017"}, seen: seen{
		created: 5200 * time.Millisecond, rolled: 24 * time.Second, caughtUp: 3 * time.Second, stopped: standstill,
		recovered: 4 * time.Second, spoilt: 6, kept: 24,
		figures: Figures{Made: 72, MostPerNode: 1, Unavailable: 6, UnavailableInAll: 8},
	}}
	got := s.summary(75 * time.Second)
	const path = "testdata/summary.txt"
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run with -update to write it)", err)
	}
	if got != string(want) {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
