// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// A rollback by the template ends although a node is down that never had the new revision.
func TestARollbackWithADeadNode(t *testing.T) {
	unjudged, _, _ := strings.Cut(judgedStrictly(), "failure:")
	for name, spec := range map[string]string{"judged": judgedStrictly(), "not judged": unjudged} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, spec)
			w.fails("j", hangs)
			w.node("j").Ready, w.node("j").Since = false, w.s.Now
			w.pass(time.Second)
			w.want("abc", v1alpha1.PhaseRolling, "canary")
			w.pass(time.Second)
			w.s.Set.Update, w.s.Revisions[0].Number = 0, 3
			w.pass(time.Second)
			w.want("abc", v1alpha1.PhaseUndoing, "")
			for range 20 {
				w.pass(time.Minute)
				w.roll()
			}
			if w.last.Phase != v1alpha1.PhaseComplete {
				t.Errorf("phase %s: have %q, %+v", w.last.Phase, w.have(1), w.last.Blocking)
			}
		})
	}
}
