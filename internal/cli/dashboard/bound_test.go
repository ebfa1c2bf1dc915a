// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"everynode.dev/everynode/internal/clustercache"
)

// boundary is a recorder with room for most entries, and sets with 10 nodes each. look looks at a set when round of its nodes have another revision.
func boundary(t *testing.T, most int) (r *recorder, look func(set string, round int)) {
	t.Helper()
	r = newRecorder()
	r.most = most
	now := time.UnixMilli(1_000_000)
	return r, func(set string, round int) {
		now = now.Add(time.Second)
		var nodes []nodeState
		for i := range 10 {
			nodes = append(nodes, nodeState{fmt.Sprintf("n%d", i), state{revision: fmt.Sprint(i < round)}})
		}
		r.take(clustercache.Key{Name: set}, "uid", now, nodes)
	}
}

// What happens to the set that is viewed is kept, although some sets without a viewer were opened before and are still recorded. The numbers are those of a
// session in the cluster, divided by 1,000: 100,000 entries, and sets on 10,000 nodes.
func TestTheRecordingOfAViewedSetIsKept(t *testing.T) {
	r, look := boundary(t, mostOfSession/1000)
	at := func() time.Time { return time.UnixMilli(1_000_000) }
	for i := range 5 {
		r.view(clustercache.Key{Name: fmt.Sprint("closed-", i)}, at)()
	}
	defer r.view(clustercache.Key{Name: "rolling"}, at)()
	for round := range 10 {
		look("rolling", round)
		for i := range 5 {
			look(fmt.Sprint("closed-", i), 0) // each quietPace
		}
	}
	if p, err := r.past(clustercache.Key{Name: "rolling"}); err != nil || len(p.Changes) != 3*9 {
		t.Errorf("9 nodes of the set that is viewed were updated, and its recording has %d changes (%v)", len(p.Changes)/3, err)
	}
}

// Of a set that is too large to be recorded the page does not say that it is recorded in some seconds: nothing ever is. A set that needs all of the room is recorded.
func TestASetThatIsTooLargeToBeRecorded(t *testing.T) {
	large := clustercache.Key{Name: "large"}
	for most, want := range map[int]error{9: errTooLarge, 10: nil, 19: nil} { // as a session in the cluster, and 50,001 nodes
		r, look := boundary(t, most)
		leave := r.view(large, time.Now)
		if _, err := r.past(large); !errors.Is(err, errNotYetRecorded) {
			t.Errorf("before the first look: %v", err)
		}
		for round := range 10 {
			look("large", round)
		}
		p, err := r.past(large)
		if !errors.Is(err, want) {
			t.Errorf("10 nodes, and room for %d: %v, want %v", most, err, want)
		}
		if most == 19 && len(p.Changes) != 3*4 { // each of the last 4 nodes counts twice: as it was before, and with its change
			t.Errorf("%d changes are kept", len(p.Changes)/3)
		}
		leave()
	}
}
