// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// While a node that is down still has the revision, nothing says that all nodes have returned. It returns when it is ready.
func TestAnUndoThatLeavesANodeOut(t *testing.T) {
	w := canary(t, strings.Replace(judgedStrictly(), "waves:", "unreachableAfter: 2m\nwaves:", 1))
	w.fails("b", pulls)
	w.node("c").Ready, w.node("c").Since = false, w.s.Now.Add(-time.Hour)
	w.pass(time.Second)
	for range 10 {
		w.pass(10 * time.Minute)
		s := w.s
		w.out.Enter(&s, nil)
		for _, a := range rollout.Decide(s).Actions {
			if name := w.s.Nodes[a.Node].Name; name != "c" { // its kubelet does not answer
				w.put(name, 0, true)
			}
		}
	}
	if got := w.have(1); got != "c" {
		t.Fatalf("%q have the revision", got)
	}
	except := "except those that are not ready and still have another one (1): c. They return when they are ready."
	w.say("Failed", "The nodes have returned to the committed revision, "+except)
	for _, text := range []string{w.messages[len(w.messages)-1], w.notices[len(w.notices)-1].Reason} {
		if text != "The nodes have returned to the committed revision agent-v1, "+except {
			t.Errorf("in phase %s it says: %s", w.last.Phase, text)
		}
	}
	w.node("c").Ready, w.node("c").Since = true, w.s.Now
	w.pass(time.Second)
	w.want("c", v1alpha1.PhaseUndoing, "canary")
	w.pass(time.Second)
	w.say("Failed", "The nodes have returned to the committed revision. Change")
}
