// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// update is the only way to change an expectation other than by hand: go test ./internal/agent/pull -update.
var update = flag.Bool("update", false, "write what the scripts in testdata print instead of comparing it")

// TestScripts runs testdata/*.txt. A script is a list of steps that are separated by an empty line: lines that say what happens
// (see player.do), a line of four dashes, and the decision that follows, which is carried out before the next step.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts in testdata (%v)", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { runScript(t, file) })
	}
}

func runScript(t *testing.T, file string) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	play := newPlayer()
	var out strings.Builder
	for _, step := range strings.Split(strings.TrimSpace(string(data)), "\n\n") {
		input, want, _ := strings.Cut(step+"\n", "----\n")
		for _, line := range strings.Split(strings.TrimSpace(input), "\n") {
			if strings.HasPrefix(line, "#") || line == "" {
				continue
			}
			if err := play.do(line); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
		s := play.snapshot()
		plan := Decide(s)
		assertGood(t, s, plan)
		got := describe(plan)
		if got != want && !*update {
			t.Errorf("%s\ndecides:\n%s\nexpected:\n%s", input, got, want)
		}
		fmt.Fprintf(&out, "%s----\n%s\n", input, got)
		play.follow(plan)
	}
	if *update {
		if err := os.WriteFile(file, []byte(strings.TrimSuffix(out.String(), "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
