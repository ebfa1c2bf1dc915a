// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"
	"testing"

	"everynode.dev/everynode/internal/plan"
	"everynode.dev/everynode/internal/rollout"
)

// TestTheFieldsThatPreventAChangeInPlaceAreNamed: the first of them; the diff has all.
func TestTheFieldsThatPreventAChangeInPlaceAreNamed(t *testing.T) {
	template := func(args int, image string) map[string]any {
		var containers []any
		for i := range 7 {
			containers = append(containers, map[string]any{"name": fmt.Sprint("c", i), "image": image, "workingDir": fmt.Sprint("/", min(i, args))})
		}
		return map[string]any{"spec": map[string]any{"containers": containers}}
	}
	for changed, want := range map[int]string{
		6: ": spec.containers[c6].workingDir",
		2: ": spec.containers[c2].workingDir, spec.containers[c3].workingDir, spec.containers[c4].workingDir, spec.containers[c5].workingDir, spec.containers[c6].workingDir",
		1: "spec.containers[c5].workingDir and 1 more",
	} {
		f := &prediction{was: template(changed-1, "i:1"), is: template(7, "i:2"), result: plan.Result{Nodes: []plan.Node{{Name: "node-1", Verdict: plan.Recreate, Detail: rollout.DetailTemplate}}}}
		if got := f.warnPlace(); len(got) != 1 || !strings.HasSuffix(got[0].Message, want) {
			t.Errorf("%d: %+v, want %q at the end", changed, got, want)
		}
	}
}
