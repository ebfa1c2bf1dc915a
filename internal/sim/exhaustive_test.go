// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var depth = flag.Int("depth", 7, "how many steps TestExhaustive goes from the edit")

// TestExhaustive goes every way that a roll from one revision to another can take, in small clusters: whatever happens next, and with one fault.
// From every state that it comes to, all has to come to its end.
func TestExhaustive(t *testing.T) {
	for _, c := range []string{
		"native nodes=1 unavailable=1 surge=0 minready=0 with=answers,crashes",
		"native nodes=2 unavailable=1 surge=0 minready=0 with=answers",
		"native nodes=2 unavailable=0 surge=1 minready=0 with=answers",
		"kruise nodes=2 unavailable=1 surge=0 minready=0 with=answers,inplace",
		"native nodes=3 unavailable=1 surge=0 minready=0 with=crashes",
	} {
		t.Run(c, func(t *testing.T) {
			cfg, err := parseConfig(c)
			if err != nil {
				t.Fatal(err)
			}
			states, runs := explore(t, cfg)
			t.Logf("%d states, %d runs", states, runs)
		})
	}
}

// explore is a search in breadth; it returns the number of different states, and of runs.
func explore(t *testing.T, cfg config) (states, runs int) {
	seen := map[string]bool{}
	first := []string{"a user sets the image v2"}
	for ways := [][]string{first}; len(ways) > 0; ways = ways[1:] {
		way, left := ways[0], 0
		var next []string
		withUsers := cfg
		withUsers.faults = append(slices.Clone(cfg.faults), "users")
		follow := script(way, false, func(step string) { t.Fatalf("%q is possible once and not again after %q", step, way) })
		o := playTo(t, withUsers, follow, func(s *sim, ops []op) bool {
			faults := slices.ContainsFunc(way, isFault)
			key := fmt.Sprint(s.situation(), faults)
			if seen[key] {
				return false
			}
			seen[key] = true
			if left = *depth - len(way) + 1; left > 0 {
				next = s.choices(ops, !faults)
			}
			return true
		})
		if o.broken != nil {
			t.Fatalf("breaks %s\n%s", o.broken, o.text())
		}
		runs++
		for _, step := range next {
			ways = append(ways, append(slices.Clone(way), step))
		}
	}
	return len(seen), runs
}

// isFault is whether a step is one that a good world does not have.
func isFault(step string) bool {
	return strings.Contains(step, ", ") || strings.HasSuffix(step, " dies")
}

// choices are the steps that are worth a try: what users do is the first step alone, and a manager looks when it is time to.
func (s *sim) choices(ops []op, faults bool) []string {
	var texts []string
	for _, o := range ops {
		dull := strings.HasPrefix(o.text, "a user ") || strings.Contains(o.text, " has seen all ") || o.text == "1s pass" || o.text == "40s pass"
		if s.lead != nil && o.text == s.lead.name+" looks" && !s.lead.due() {
			dull = true
		}
		if !dull && (faults || !isFault(o.text)) && !slices.Contains(texts, o.text) {
			texts = append(texts, o.text)
		}
	}
	return texts
}

// situation is what a run has come to, in words: two runs with the same words go on in the same ways, as far as this simulation can tell.
func (s *sim) situation() string {
	var b strings.Builder
	for _, p := range s.w.pods() {
		ready, _ := readyOf(p)
		fmt.Fprint(&b, p.UID, imageOf(p), runs(p), p.Status.Phase, ready, gatesOpen(p), p.DeletionTimestamp != nil, p.Spec.NodeName, ";")
	}
	status, _, _ := unstructured.NestedMap(s.w.set().Object, "status")
	fmt.Fprint(&b, len(s.w.state[ofRevisions]), status["observedGeneration"], status["updatedNumberScheduled"], status["numberAvailable"], s.down)
	for _, z := range s.stragglers {
		fmt.Fprint(&b, z.text, z.until.Sub(s.w.now))
	}
	m := s.lead
	if m == nil {
		return b.String()
	}
	fmt.Fprint(&b, m.running, m.due(), m.synced(), m.fence.Sub(s.w.now) > 0)
	for k := range kinds {
		fmt.Fprint(&b, m.seen[k] < 0 || m.behind(k) > 0, len(s.w.logs[k])-m.seen[k], ",")
	}
	for _, r := range m.waiting() {
		fmt.Fprint(&b, r.text, ";")
	}
	for _, uid := range slices.Sorted(maps.Keys(m.known.doomed)) {
		fmt.Fprint(&b, uid, s.unclear[uid])
	}
	return b.String()
}
