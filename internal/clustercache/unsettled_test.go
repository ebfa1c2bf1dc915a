// SPDX-License-Identifier: Apache-2.0

package clustercache

import (
	"testing"

	"everynode.dev/everynode/internal/clustercache/inflight"
)

func TestAnUnsettledPodStaysSoOverUpdates(t *testing.T) {
	f := newFixture(t)
	f.node("a")
	key := f.set("ds")
	p := f.put(pod("p", "a", "ds"))
	f.x.Resolve(inflight.Write{Verb: inflight.Delete, UID: p.UID, Until: 5}, inflight.Unclear)
	f.put(p)
	if got := f.x.Ownership(key, 0).Unsettled; len(got) != 1 || got[0].Until != 5 {
		t.Fatalf("unsettled %v, want the pod", got)
	}
	if n := f.snapshot(key).Nodes[0]; n.Blocked != "it is not clear whether the delete of pod p took effect" || !n.Unanswered {
		t.Errorf("blocked %q: with a surge a third pod might come", n.Blocked)
	}
	p.Deleting = true
	f.put(p)
	if n := f.snapshot(key).Nodes[0]; n.Blocked != "" || n.Unanswered {
		t.Errorf("blocked %q: the deletion is known now", n.Blocked)
	}
	if got := f.x.Ownership(key, 0).Unsettled; len(got) != 0 {
		t.Errorf("unsettled %v: the deletion is known now", got)
	}
}
