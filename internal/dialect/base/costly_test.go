// SPDX-License-Identifier: Apache-2.0

package base

import (
	"testing"

	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/placement"
)

// TestCostlyPlacement: a template with too many terms is shown, and worked on all the same, as the native controller does.
func TestCostlyPlacement(t *testing.T) {
	for _, tolerations := range []int{placement.MaxTerms - 10, placement.MaxTerms + 1} {
		list := make([]any, tolerations)
		for i := range list {
			list[i] = map[string]any{"key": "k", "operator": "Exists"}
		}
		r, w := Reader{}, dialect.Workload{}
		r.template(&w, Object{Path: "spec", Fields: map[string]any{"template": map[string]any{"spec": map[string]any{"tolerations": list}}}})
		shown := len(r.problems) == 1 && r.problems[0].Reason == ReasonCostlyPlacement && !r.problems[0].Fatal
		if w.Placement == nil || shown != (tolerations > placement.MaxTerms) {
			t.Errorf("%d tolerations: problems %v", tolerations, r.problems)
		}
	}
}
