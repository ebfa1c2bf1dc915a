// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"errors"
	"strings"
	"testing"
)

// TestALongAnswer: a webhook of others may refuse the pods of all nodes with a text of any length, of which little is kept for each node.
func TestALongAnswer(t *testing.T) {
	on := func(node string) string {
		r := &Refusal{what: "creating a pod", pod: "agent-x", node: node, err: errors.New(`admission webhook "w" denied pod agent-x: ` + strings.Repeat("because of "+node+" ", 100_000))}
		return r.Reason()
	}
	if on("n1") != on("node-with-a-longer-name") {
		t.Error("the same answer about two nodes has two reasons")
	}
	if got := on("n1"); len(got) > 2048 || !strings.HasPrefix(got, `creating a pod: admission webhook "w" denied pod <pod>: because `) || !strings.HasSuffix(got, "...") {
		t.Errorf("%d bytes are kept: %.200s", len(got), got)
	}
}
