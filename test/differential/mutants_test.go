// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var withMutants = flag.Bool("mutants", false, "show that mutants of Everynode are noticed; builds this test once for each")

// mutant is a way in which Everynode could be wrong: in a file, one text in the place of another.
type mutant struct{ name, file, was, is string }

// Places of mutants.
const (
	takesNodes    = "s.Nodes = b.nodes"
	hashesAndSays = `revision.Hash(p.w.Template, p.w.CollisionCount)
	if err != nil {
		return fmt.Errorf("hashing the template`
)

func mutants() []mutant {
	return []mutant{
		{"takes one node more than the budget", "internal/rollout/budget.go", "return t.Limit - t.used }", "return t.Limit - t.used + 1 }"},
		{"keeps the youngest of several pods", "internal/rollout/cleanup.go", "return p != t.keep", "return p == t.keep"},
		{"leaves pods that have succeeded", "internal/rollout/cleanup.go", "return ReplacingEnded, true", "return ReplacingEnded, false"},
		{"keeps the old pod of a pair that is not ready", "internal/rollout/surge.go", "return d.serving(c.current) || !c.old.ready()", "return d.serving(c.current)"},
		{"overlooks pods on nodes that only may keep theirs", "internal/rollout/status.go", "case MayStay, MustLeave:", "case MustLeave:"},
		{"forgets that a template is used again", "internal/controller/daemonset/history.go", "cur.Number != h.Number", "cur.Number == 0"},
		{"deletes revisions that pods still have", "internal/revision/history.go", "if !live[entries[i].Hash] {", "if len(live) >= 0 {"},
		{"keeps pods that the set does not select any more", "internal/apply/executor/claims.go", "range claims.Release {", "range claims.Release[:0] {"},
		{"takes the old collision count", "internal/controller/daemonset/history.go", hashesAndSays, strings.Replace(hashesAndSays, "p.w.CollisionCount", "nil", 1)},
		{"takes one node more than the budget where pods of another set have the generation of this one", "internal/clustercache/snapshot.go", takesNodes, takesNodes + `
	for i := range order {
		for p := set.states[order[i].id].pods; p != nil; p = p.next {
			if p.created < h.Since && p.generation == h.Generation {
				s.Set.MaxUnavailable.Value = set.workload.Set.MaxUnavailable.Value + 1
			}
		}
	}`},
	}
}

// byHand is the one story that no seed has made up: what it tells is rare in those.
const byHand = "TestMisledIsJudged"

// TestMutants shows that what the stories compare is able to differ.
func TestMutants(t *testing.T) {
	if !*withMutants {
		t.Skip("SKIPPED: builds this test anew for each mutant; run it with -args -mutants")
	}
	for _, m := range mutants() {
		t.Run(strings.ReplaceAll(m.name, " ", "_"), func(t *testing.T) {
			cmd := exec.Command("go", "test", "-count=1", "-overlay", overlay(t, m), "-run", "TestSameEndState|"+byHand, "-timeout", "30m", ".",
				"-args", "-sequences", "100", "-failures", "1", "-patience", "20m") // some mutants never rest
			out, err := cmd.CombinedOutput()
			switch first := firstStoryOf(string(out)); {
			case err == nil:
				t.Errorf("not noticed: a mutant that %s", m.name)
			case first == "":
				t.Errorf("a mutant that %s: the test did not run:\n%s", m.name, out)
			default:
				t.Logf("noticed in %s", first)
			}
		})
	}
}

// TestMutantsFit shows without a build that each mutant still has its place.
func TestMutantsFit(t *testing.T) {
	for _, m := range mutants() {
		overlay(t, m)
	}
}

// overlay is a file that has the compiler see the mutant.
func overlay(t *testing.T, m mutant) string {
	t.Helper()
	file, err := filepath.Abs(filepath.Join("..", "..", m.file))
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), m.was); n != 1 {
		t.Fatalf("%s has %q %d times: a mutant needs a place", m.file, m.was, n)
	}
	changed := filepath.Join(t.TempDir(), "mutant.go")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {file: changed}})
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "overlay.json")
	for path, data := range map[string]string{changed: strings.Replace(string(source), m.was, m.is, 1), to: string(list)} {
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// firstStoryOf is the first seed that a failed run names, or else the story that is written by hand, if it failed.
func firstStoryOf(out string) string {
	_, after, found := strings.Cut(out, ": seed ")
	switch seed, _, _ := strings.Cut(after, ":"); {
	case found:
		return "seed " + seed
	case strings.Contains(out, "FAIL: "+byHand):
		return byHand
	default:
		return ""
	}
}
