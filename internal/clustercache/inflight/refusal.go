// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"maps"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rollout"
)

// How long a node waits after a refused write: half of the time for which its writes have been refused. So
// retries become less frequent, and when the cause disappears, the node recovers within a proportional time.
const (
	shortestRefusal = time.Second
	longestRefusal  = 5 * time.Minute
)

// Refusal is a definite refusal of the API server to a write for a node, or an answer that leaves open whether the write took effect.
type Refusal struct {
	Node string
	// Pod is the UID of the pod that was to be changed or deleted; empty when one was to be created.
	Pod types.UID
	// Before is the state of that pod before an edit whose outcome is unknown; nil for another write.
	Before *Content
	// Message is what the API server said, and Denied whether it said no to the object (rollout.Refusal.Denied).
	Message string
	Denied  bool
	// Quota reports whether a quota is used up (rollout.Refusal.Quota).
	Quota bool
	// Of is which write it was (rollout.Refusal.Of).
	Of rollout.ActionKind
	// At is when, by the clock of Snapshots.
	At rollout.Time
}

// Content is what an edit changes of a pod.
type Content struct {
	Labels map[string]string
	Facts  *dialect.PodFacts
}

// refusal is what is remembered of the refusals of one node in a row: since is when the first one was.
type refusal struct {
	Refusal
	since, retryAt rollout.Time
}

// Refuse records a refusal, and returns when the node is to be tried again. It holds until the write succeeds (Accept), what it was about has
// ended, because there is a new pod (Outlive), or that pod has gone or been edited (Edited), or the set changes.
func (s *Set) Refuse(node int, r Refusal) (retryAt rollout.Time) {
	since := r.At
	if before := s.refused[node]; before != nil && (before.Pod == "") == (r.Pod == "") && before.since <= r.At {
		since = before.since // also of another pod, because several pods of the node may need to be deleted
	}
	retryAt = r.At.Add(min(max(r.At.Sub(since)/2, shortestRefusal), longestRefusal))
	if r.Message == s.lastRefusal {
		r.Message = s.lastRefusal // what is refused on all nodes for one cause is kept once
	}
	s.lastRefusal = r.Message
	s.refused[node] = &refusal{Refusal: r, since: since, retryAt: retryAt}
	return retryAt
}

// Accept records that a write for the node has succeeded. If an Unmark or a Restore has put a pod back into
// use whose change in place or delete was refused, the refusal stays: the write is tried again when its time
// has come.
func (s *Set) Accept(node int, takenBackBy rollout.ActionKind) {
	switch r := s.refused[node]; {
	case r == nil:
	case takenBackBy != 0:
		r.Of = takenBackBy
	default:
		delete(s.refused, node)
	}
}

// Outlive forgets the refusal of a node if it concerned a pod that is gone, or, with an empty uid, if it concerned the create of a pod that now exists.
func (s *Set) Outlive(node int, uid types.UID) {
	if r := s.refused[node]; r != nil && r.Pod == uid {
		delete(s.refused, node)
	}
}

// Edited forgets the refusal of an edit of a pod if the pod shows that the edit took effect.
func (s *Set) Edited(node int, uid types.UID, after Content) {
	if r := s.refused[node]; r != nil && r.Pod == uid && r.tookEffect(after) {
		delete(s.refused, node)
	}
}

// tookEffect reports whether a pod is no longer as it was before an edit whose answer left that open. Why a pod does not start is not ours to change.
func (r *refusal) tookEffect(after Content) bool {
	if r.Before == nil || !maps.Equal(r.Before.Labels, after.Labels) {
		return r.Before != nil
	}
	if r.Of != 0 {
		return false // a change in place gives the pod another label
	}
	var had, has dialect.PodFacts
	if r.Before.Facts != nil {
		had = *r.Before.Facts
	}
	if after.Facts != nil {
		has = *after.Facts
	}
	had.Trouble, has.Trouble = "", ""
	return !reflect.DeepEqual(had, has)
}

// seenAt returns the refusal for Decide. A refusal with a time in the future was recorded before the clock was set back; then it is not known how long to wait.
func (r *refusal) seenAt(now rollout.Time) *rollout.Refusal {
	if r == nil {
		return nil
	}
	seen := &rollout.Refusal{Message: r.Message, Denied: r.Denied, Quota: r.Quota, Of: r.Of}
	if r.At <= now {
		seen.RetryAt = r.retryAt
	}
	return seen
}
