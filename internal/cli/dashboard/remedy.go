// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"slices"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/cli/inspect"
	rules "everynode.dev/everynode/internal/policy"
)

// remedy is what a user can do so that a rollout continues which waits for that. The page has a button for it, and shows the command; it reads neither out of texts.
type remedy struct {
	// Verb is the action, as the page sends it.
	Verb string `json:"verb"`
	// Concerns is what it is about, for example "wave canary".
	Concerns string `json:"concerns"`
	// Line is the command for a shell.
	Line string `json:"line"`
}

// remediesOf returns what a user can do about a rollout that waits for a user, the most usual action first.
func (s *server) remediesOf(m *inspect.Evaluation) (all []remedy) {
	set := m.Set.String()
	add := func(verb, concerns string, flags ...string) {
		words := offered()[verb].command
		if words == nil {
			words = []string{verb}
		}
		r := request{Namespace: m.Set.Namespace(), connection: s.connection}
		all = append(all, remedy{verb, concerns, r.line(words, append(flags, "--", set))})
	}
	p := m.Governance.Report()
	if p == nil {
		p = &inspect.PolicyReport{}
	}
	waits := slices.IndexFunc(p.Waves, func(w v1alpha1.WaveStatus) bool { return w.Phase == v1alpha1.WaveWaitingForApproval })
	revision := "revision " + p.TargetRevision
	hooked, stuck := m.WaitForUsers()
	switch {
	case p.Suspended:
		add("resume", "rolloutpolicy/"+p.Name)
	case m.Snapshot.Set.Paused:
		add("resume", set)
	case waits >= 0 && p.Phase != v1alpha1.PhaseRejected:
		add("approve", "wave "+p.Waves[waits].Name)
		add("reject", revision)
	case p.Phase == v1alpha1.PhaseFailed:
		add("retry", revision)
		add("undo", set)
	case p.Phase == v1alpha1.PhaseRejected:
		add("undo", set)
	case slices.ContainsFunc(p.Blocking, func(b v1alpha1.Blocking) bool { return b.Reason == rules.NodesGone }):
		add("promote", "wave "+p.Wave)
		add("reject", revision)
	case hooked > 0:
		add("release", inspect.NodeCount(hooked), "--all=true")
	case stuck > 0 && len(m.History.Revisions) > 1:
		add("undo", inspect.NodeCount(stuck))
	}
	return all
}
