// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"errors"
	"strings"
	"testing"
)

// TestALongAnswer: a webhook of others may refuse the pods of all nodes with a text of any length, of which little is kept for each node.
func TestALongAnswer(t *testing.T) {
	r := &Refusal{what: "creating a pod", pod: "agent-x", node: "n1", err: errors.New(`admission webhook "w" denied pod agent-x: ` + strings.Repeat("because ", 100_000))}
	if got := r.Reason(); len(got) > 2048 || !strings.HasPrefix(got, `creating a pod: admission webhook "w" denied pod <pod>: because `) || !strings.HasSuffix(got, "...") {
		t.Errorf("%d bytes are kept: %.200s", len(got), got)
	}
}
