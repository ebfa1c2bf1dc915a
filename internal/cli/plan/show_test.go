// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"

	"everynode.dev/everynode/internal/plan"
)

// A wave begins when the first of its nodes does, whichever has the first name.
func TestStartOfAWave(t *testing.T) {
	rows := group([]Node{
		{Name: "node-1", Verdict: plan.Recreate, Wave: 1, Start: "1m5s"},
		{Name: "node-2", Verdict: plan.Recreate, Wave: 1, Start: "10s"},
		{Name: "node-3", Verdict: plan.Recreate, Wave: 1, Start: "9s"},
		{Name: "node-4", Verdict: plan.Recreate, Wave: 1, Start: "20s"},
		{Name: "node-5", Verdict: plan.Wait},
		{Name: "node-6", Verdict: plan.Wait},
	})
	if len(rows) != 2 || rows[0].start != "9s" || len(rows[0].nodes) != 4 || rows[1].start != "" {
		t.Errorf("rows %+v, want that the wave starts at 9s", rows)
	}
}

// What is said of the budget is what the document says.
func TestBudgetAndWhatIsUnderWay(t *testing.T) {
	for most, want := range map[int]string{
		3: "Budget: 5 unavailable at once, so 2 batches; the update takes 3 at once; at most 6 without an available pod at once (1 now).",
		5: "Budget: 5 unavailable at once, so 2 batches; at most 6 without an available pod at once (1 now).",
		8: "Budget: 5 unavailable at once, so 2 batches; 8 at once: pods that are not available are replaced without using the budget; at most 6 without an available pod at once (1 now).",
	} {
		var out strings.Builder
		(&screen{w: &out}).estimate(&Document{
			Counts: map[plan.Verdict]int{plan.Recreate: 10},
			Budget: Budget{Limit: 5, Of: "unavailable", Waves: 2, MostAtOnce: most, MostDown: 6, DownNow: 1},
		})
		if !strings.Contains(out.String(), want+"\n") {
			t.Errorf("%d at once: it says\n%s\nwant\n%s", most, out.String(), want)
		}
	}
	surge := Budget{Limit: 1, Of: "surge", MostAtOnce: 2}
	if got := surge.simultaneous(); !strings.Contains(got, "2 at once: an old pod that is not available, or is terminating") {
		t.Errorf("with surge it says %q", got)
	}
}
