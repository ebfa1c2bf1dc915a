// SPDX-License-Identifier: Apache-2.0

// Package policyinput builds what the decision about rollout policies (policy.Decide) reads, from a Workload and its history. The manager and the command
// line share it, so that both decide from the same input.
package policyinput

import (
	"encoding/json"
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

// Claims returns what quotas count of the pods of each revision of a history (policy.Input): their resources, and what decides which quotas count them. It computes that once, because a policy asks
// for each node that a quota refuses.
func Claims(h *clustercache.Resolved) func(revision int) string {
	compute, known := claims(h), map[int]string{}
	return func(revision int) string {
		text, is := known[revision]
		if !is {
			text = compute(revision)
			known[revision] = text
		}
		return text
	}
}

func claims(h *clustercache.Resolved) func(revision int) string {
	return func(revision int) string {
		if revision >= len(h.Entries) {
			return "" // a template that has no revision yet
		}
		spec, _ := h.Entries[revision].Template["spec"].(map[string]any)
		claims := map[string]any{}
		for _, field := range []string{"resources", "overhead", "runtimeClassName", "priorityClassName", "activeDeadlineSeconds", "affinity"} {
			claims[field] = spec[field]
		}
		for _, list := range []string{"containers", "initContainers"} {
			all, _ := spec[list].([]any)
			of := make([]any, len(all))
			for i := range all {
				container, _ := all[i].(map[string]any)
				of[i] = []any{container["resources"], container["restartPolicy"]}
			}
			claims[list] = of
		}
		text, err := json.Marshal(claims)
		if err != nil {
			return h.Entries[revision].Name // equal to that of no other revision
		}
		return string(text)
	}
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
