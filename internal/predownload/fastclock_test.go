// SPDX-License-Identifier: Apache-2.0

package predownload

import (
	"testing"
	"time"
)

// TestAnOrderDatedByAFastClock: the leader before this one had a clock that was a day fast when it told a node to pull. The end of the wait is a timeout away at most.
func TestAnOrderDatedByAFastClock(t *testing.T) {
	in := world(t, image("a:1"), image("a:2"))
	in.Set.PullAhead.Wait = true
	in.Jobs = []Job{{Name: "main", Hash: "h1", Image: "a:2", Stays: true, Created: 7 * second}}
	in.Snapshot.Now = 10 * second
	waits(in, map[string]Pulled{"n1 a:2": {Ordered: in.Snapshot.Now.Add(24 * time.Hour)}})
	until := in.Snapshot.Nodes[1].ImageUntil
	if longest := in.Snapshot.Now.Add(in.Set.PullAhead.Timeout + 10*time.Minute); until > longest {
		t.Errorf("the update of the node waits for %v, and its timeout is %v", time.Duration(until-in.Snapshot.Now), in.Set.PullAhead.Timeout)
	}
}
