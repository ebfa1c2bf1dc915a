// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"maps"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rollout"
)

// How long a node waits whose write was refused: half as long as that has been so, so it is asked less and less often, and follows within a time
// that is in proportion when what stands against it goes.
const (
	shortestRefusal = time.Second
	longestRefusal  = 5 * time.Minute
)

// Refusal is a definite no of the API server to a write for a node, or an answer that leaves open whether the write took effect.
type Refusal struct {
	Node string
	// Pod is the UID of the pod that was to be changed or deleted; empty when one was to be created.
	Pod types.UID
	// Before is what that pod was like before an edit of which it is open whether it took effect; nil for another write.
	Before *Pod
	// Message is what the API server said.
	Message string
	// Of is which write it was (rollout.Refusal.Of).
	Of rollout.ActionKind
	// At is when, by the clock of Snapshots.
	At rollout.Time
}

// refusal is what is remembered of the refusals of one node in a row: since is when the first one was.
type refusal struct {
	Refusal
	since, retryAt rollout.Time
}

// Refuse records a refusal, and returns when the node is to be tried again. It holds until the write succeeds (Accept), what it was about is
// over, because there is a new pod, or that pod has gone or been edited (Dispel), or the set changes.
func (x *Index) Refuse(key Key, r Refusal) (retryAt rollout.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s, n := x.sets[key], x.nodes.byName[r.Node]
	if s == nil || n == nil {
		return 0
	}
	since := r.At
	if before := s.refused[n.id]; before != nil && (before.Pod == "") == (r.Pod == "") && before.since <= r.At {
		since = before.since // also of another pod: several pods of one node may have to go
	}
	retryAt = r.At.Add(min(max(r.At.Sub(since)/2, shortestRefusal), longestRefusal))
	if r.Message == s.lastRefusal {
		r.Message = s.lastRefusal // what is refused on all nodes for one cause is kept once
	}
	s.lastRefusal = r.Message
	s.refused[n.id] = &refusal{Refusal: r, since: since, retryAt: retryAt}
	s.own(n)
	return retryAt
}

// Accept records that a write for the node has succeeded.
func (x *Index) Accept(key Key, nodeName string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s, n := x.sets[key], x.nodes.byName[nodeName]; s != nil && n != nil {
		delete(s.refused, n.id)
	}
}

// TakenBack records that an Unmark or a Restore has put the pod back into use of which the change in place or the delete was refused on the node. The refusal
// stays: the write is tried again when its time has come.
func (x *Index) TakenBack(key Key, nodeName string, by rollout.ActionKind) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s, n := x.sets[key], x.nodes.byName[nodeName]; s != nil && n != nil && s.refused[n.id] != nil {
		s.refused[n.id].Of = by
	}
}

// outlive forgets the refusal of a node that was about a pod which has gone, or with an empty uid about one that there is now.
func (s *set) outlive(n *node, uid types.UID) {
	if r := s.refused[n.id]; r != nil && r.Pod == uid {
		delete(s.refused, n.id)
	}
}

// tookEffect is whether a pod is no longer as it was before an edit whose answer left that open. Why a pod does not start is not ours to change.
func (r *refusal) tookEffect(p *podRecord) bool {
	if r.Before == nil || !maps.Equal(r.Before.Labels, p.labels.set) {
		return r.Before != nil
	}
	if r.Of != 0 {
		return false // a change in place gives the pod another label
	}
	var before, after dialect.PodFacts
	if r.Before.Facts != nil {
		before = *r.Before.Facts
	}
	if p.facts != nil {
		after = *p.facts
	}
	before.Trouble, after.Trouble = "", ""
	return !reflect.DeepEqual(before, after)
}

// seenAt is the refusal as Decide gets it. One of a later time was noted by a clock that has been set back since: how long to wait is not known then.
func (r *refusal) seenAt(now rollout.Time) *rollout.Refusal {
	if r == nil {
		return nil
	}
	seen := &rollout.Refusal{Message: r.Message, Of: r.Of}
	if r.At <= now {
		seen.RetryAt = r.retryAt
	}
	return seen
}
