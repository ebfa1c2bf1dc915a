// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"math/rand"
	"reflect"
	"testing"
)

// TestHoldsOfAPolicyFoundOutLateAreThoseFoundOutFirst: where only a policy holds nodes back, their holds are found out while they are visited. That changes no plan.
func TestHoldsOfAPolicyFoundOutLateAreThoseFoundOutFirst(t *testing.T) {
	alone, limited := 0, 0
	for i := range randomCount() / 5 {
		s := randomSnapshot(i)
		data := make([]byte, 200)
		rand.New(rand.NewSource(int64(-1 - i))).Read(data)
		src := &source{data}
		s.Gate = src.gate(&s)
		if i%2 == 0 { // no limits, so that only the policy holds
			s.Set.EligibleOnly, s.Set.Paused, s.Set.Selective, s.Set.Partition = false, false, false, Quantity{}
		}
		d := begin(&s)
		d.holdNodes()
		if d.holds == nil && d.gating {
			d.holds = make([]VerdictKind, len(s.Nodes))
			d.holdByPolicy()
			alone++
		} else if d.holds != nil {
			limited++
		}
		for k := range s.Nodes {
			d.visitNode(k)
		}
		d.startUpdates()
		if want, got := d.finish(), Decide(s); !reflect.DeepEqual(got, want) {
			t.Fatalf("the holds that are found out late lead elsewhere\n%s\nthose found out first\n%s", show(s, got), printPlan(&s, want))
		}
	}
	if alone == 0 || limited == 0 {
		t.Errorf("%d snapshots with the holds of a policy alone, %d with limits", alone, limited)
	}
}
