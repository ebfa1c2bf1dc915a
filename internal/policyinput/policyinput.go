// SPDX-License-Identifier: Apache-2.0

// Package policyinput builds what the decision about rollout policies (policy.Decide) reads, from a Workload and its history. The manager and the command
// line share it, so that both decide from the same input.
package policyinput

import (
	"slices"

	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/revision"
	"everynode.dev/everynode/internal/rollout"
)

// SetOf returns a set as policies select it.
func SetOf(w *dialect.Workload) policy.Set {
	return policy.Set{Advanced: w.Advanced, Namespace: w.Namespace, Name: w.Name, Labels: w.Labels}
}

// Committed reports whether a revision has the mark of a policy, so that updates wait for a policy also while none applies.
func Committed(h *clustercache.Resolved) bool {
	return slices.ContainsFunc(h.Revisions, func(r clustercache.Revision) bool { return r.Committed > 0 })
}

// Revisions returns the history as policies see it. foreign contains for each revision whether policies
// forbid creating pods from it; nil for none. digests is the result of Digests.
func Revisions(w *dialect.Workload, h *clustercache.Resolved, foreign []bool, digests []string) []policy.Revision {
	index := h.History(w).Index
	all := make([]policy.Revision, len(h.Entries))
	for i := range h.Entries {
		same, known := index[h.Entries[i].Hash]
		if !known {
			same = i
		}
		all[i] = policy.Revision{
			Name: h.Entries[i].Name, Committed: h.Revisions[i].Committed, Failed: h.Revisions[i].Failed, Same: same, Digest: digests[i], Foreign: i < len(foreign) && foreign[i],
		}
	}
	return all
}

// Digests are the digests of the templates of all revisions of a history.
func Digests(h *clustercache.Resolved) []string {
	all := make([]string, len(h.Entries))
	for i := range h.Entries {
		all[i] = revision.Digest(h.Entries[i].Template)
	}
	return all
}

// UpdatedByPolicy converts a set whose pods another controller manages into one that a policy updates by deletes. The set must have such a
// specification (Workload.ByPolicy). The Workload itself stays the same: others read it.
func UpdatedByPolicy(w *dialect.Workload, by *policy.Policy) *dialect.Workload {
	updated := *w
	updated.Set = *w.ByPolicy
	if by.MaxUnavailable != nil {
		updated.Set.MaxUnavailable = *by.MaxUnavailable
	}
	return &updated
}

// Respecify gives a Snapshot the specification of a Workload that UpdatedByPolicy has returned.
func Respecify(s *rollout.Snapshot, w *dialect.Workload) {
	update := s.Set.Update
	s.Set = w.Set
	s.Set.Update = update
}
