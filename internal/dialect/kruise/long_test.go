// SPDX-License-Identifier: Apache-2.0

package kruise_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/internal/rollout"
)

// TestLongMessages: a webhook of others may refuse pods with a text of any length, and an annotation may be as long as the API server allows. The API server refuses a
// status that is too long, and then nothing of it would be reported, also not that the set has a problem.
func TestLongMessages(t *testing.T) {
	long := strings.Repeat("ä long answer ", 200_000)
	for name, change := range map[string]func(o *kruise.Observation){
		"pods that are refused": func(o *kruise.Observation) {
			for i := range o.Snapshot.Nodes {
				o.Snapshot.Nodes[i].Blocked = long
			}
		},
		"a failure": func(o *kruise.Observation) { o.Failure = errors.New(long) },
		"a problem": func(o *kruise.Observation) { o.Problems = []dialect.Problem{{Reason: "IgnoredField", Message: long}} },
		"one that is fatal": func(o *kruise.Observation) {
			o.Problems = []dialect.Problem{{Reason: "InvalidSpec", Message: long, Fatal: true}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := world(rollout.Blocked, rollout.Blocked, rollout.Blocked, rollout.Blocked)
			change(&o)
			conditions := kruise.Conditions(nil, o)
			if data, err := json.Marshal(conditions); err != nil || len(data) > 100_000 || !strings.Contains(string(data), "ä long answer") {
				t.Errorf("the conditions have %d bytes (%v)", len(data), err)
			}
			if healthOf(t, conditions) == "" {
				t.Error("they do not say whether the set is ready")
			}
		})
	}
}
