// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// resolution is that of the times in objects.
const resolution = time.Second

// compare compares when the waves began, were complete and ended with the plan, and returns the comparison and what is wrong. A wave ends when the next one begins, and
// the last one when it is complete. Every soak lasts at least as long as planned. Later than planned may be each step by what the machine itself took longer than
// planned in this rollout where it waits for nothing: see lag. To this comes the range of the plan.
func (h history) compare(t *testing.T, plan *foreseen, updated time.Time) (lines, wrong []string) {
	t.Helper()
	steps := plan.steps(t)
	lag := h.lag(t, plan, steps, updated) + resolution
	late, passed := length(t, plan.Estimate.High)-length(t, plan.Estimate.Low), 0
	lines = append(lines, fmt.Sprintf("a step may be %s later than planned, all steps together another %s", lag, late))
	for k, w := range plan.Policy.Waves {
		began, complete := h.span(w.Nodes)
		passed++ // until it begins
		check := func(what, planned string, at time.Time) {
			after := at.Sub(updated)
			lines = append(lines, fmt.Sprintf("wave %-8s %3d nodes: %s after %s (planned %s)", w.Name, len(w.Nodes), what, after, planned))
			if allowed := length(t, planned) + late + time.Duration(passed)*lag; planned != "" && after > allowed {
				wrong = append(wrong, fmt.Sprintf("wave %s %s after %s, the plan says %s, and at most %s are allowed", w.Name, what, after, planned, allowed))
			}
		}
		check("begins", w.Start, began)
		for _, s := range steps {
			if s.wave == w.Name {
				passed += 2 // it is updated, and the next one begins
			}
		}
		check("is complete", w.Complete, complete)
		ends := complete
		if k+1 < len(plan.Policy.Waves) {
			passed++
			ends, _ = h.span(plan.Policy.Waves[k+1].Nodes)
		}
		check("ends", w.End, ends)
		if soak := length(t, w.Soak); k+1 < len(plan.Policy.Waves) && h.waited(complete, ends) < soak {
			wrong = append(wrong, fmt.Sprintf("wave %s ends %s after it is complete, and soaks for %s", w.Name, h.waited(complete, ends), soak))
		}
	}
	return lines, wrong
}

// lag is by how much the machine was slower than planned in one step: from the update to the first node, in the update of a node, or between two steps without a soak.
func (h history) lag(t *testing.T, plan *foreseen, steps []step, updated time.Time) time.Duration {
	t.Helper()
	lag := time.Duration(0)
	for _, n := range plan.Nodes {
		if n.Start != "" && n.End != "" {
			lag = max(lag, h.done[n.Name].at.Sub(h.began[n.Name].at)-length(t, n.End)+length(t, n.Start))
		}
	}
	for k, s := range steps {
		began, _ := h.span(s.nodes)
		switch {
		case k == 0 && len(plan.Policy.Waves) > 0:
			lag = max(lag, began.Sub(updated)-length(t, plan.Policy.Waves[0].Start))
		case k > 0 && s.wave == steps[k-1].wave:
			_, done := h.span(steps[k-1].nodes)
			lag = max(lag, began.Sub(done))
		}
	}
	return lag
}

// TestCompare: what is later than planned and the machine does not account for, and what is earlier than its soak allows, is wrong.
func TestCompare(t *testing.T) {
	plan := &foreseen{
		Nodes: []foreseenNode{{"a", "0s", "3s"}, {"b", "13s", "16s"}, {"c", "21s", "24s"}, {"d", "24s", "27s"}},
	}
	plan.Policy.Waves = []foreseenWave{
		{Name: "canary", Start: "0s", Complete: "3s", End: "13s", Soak: "10s", Nodes: []string{"a"}},
		{Name: "part", Start: "13s", Complete: "16s", End: "21s", Soak: "5s", Nodes: []string{"b"}},
		{Name: "rest", Start: "21s", Complete: "27s", End: "27s", Nodes: []string{"c", "d"}},
	}
	for name, c := range map[string]struct {
		began, done [4]int // in seconds
		want        string
	}{
		"as planned":                       {[4]int{0, 13, 21, 24}, [4]int{3, 16, 24, 27}, ""},
		"faster than planned":              {[4]int{0, 11, 17, 18}, [4]int{1, 12, 18, 19}, ""},
		"a machine that is slow all along": {[4]int{4, 22, 36, 45}, [4]int{10, 29, 43, 52}, ""},
		"a soak that is one second short":  {[4]int{0, 12, 20, 23}, [4]int{3, 15, 23, 26}, "wave canary ends 9s after it is complete"},
		"another one":                      {[4]int{0, 13, 20, 23}, [4]int{3, 16, 23, 26}, "wave part ends 4s after it is complete"},
		"a wave that begins late":          {[4]int{0, 60, 68, 71}, [4]int{3, 63, 71, 74}, "wave part begins after 1m0s"},
		"a wave that ends late":            {[4]int{0, 60, 68, 71}, [4]int{3, 63, 71, 74}, "wave canary ends after 1m0s"},
		"a wave that does not begin at once, on a machine that waits between steps": {[4]int{0, 90, 98, 103}, [4]int{3, 93, 101, 106}, "wave canary ends after 1m30s"},
	} {
		updated := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		h := history{began: map[string]moment{}, done: map[string]moment{}}
		for i, n := range plan.Nodes {
			h.began[n.Name] = moment{at: updated.Add(time.Duration(c.began[i]) * time.Second)}
			h.done[n.Name] = moment{at: updated.Add(time.Duration(c.done[i]) * time.Second)}
		}
		_, wrong := h.compare(t, plan, updated)
		if all := strings.Join(wrong, "\n"); c.want == "" && all != "" || !strings.Contains(all, c.want) {
			t.Errorf("%s: %q, want %q", name, all, c.want)
		}
	}
}
