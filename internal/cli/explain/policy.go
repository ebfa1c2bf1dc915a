// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/rollout"
)

// governed returns the policy of the set, and the wave of the node.
func (s *subject) governed() []Value {
	g := &s.m.Governance
	r := g.Report()
	if text := s.m.Unheld(); text != "" && s.verdict().Kind != rollout.UpToDate {
		return []Value{{"not held", text}}
	}
	if r == nil {
		return nil
	}
	values := []Value{{"policy", r.Headline()}}
	if s.at < len(g.Waves) && g.Waves[s.at] >= 0 {
		values = append(values, Value{"wave", s.wave(g.Waves[s.at])})
	}
	if why := r.GoesBack(); why != "" && s.verdict().Kind != rollout.UpToDate {
		values = append(values, Value{"goes back", why})
	}
	if s.verdict().Kind != rollout.UpToDate {
		for _, text := range r.Ended() {
			values = append(values, Value{"decision", text})
		}
	}
	if of, wave := r.FailedOn(s.seen().Name); of != nil {
		text := fmt.Sprintf("the revision failed here in wave %s: %s", wave, of.Reason)
		if of.ExitCode != nil {
			text += ", exit code " + inspect.Exit(of)
		}
		exists := slices.ContainsFunc(s.seen().Pods, func(p rollout.Pod) bool { return p.Name == of.Pod })
		values = append(values, Value{"failed", strings.TrimSpace(text + ". " + of.Message)}, Value{"log", r.Log(of, exists)})
	}
	if why := g.HeldBy(s.seen().Name, s.m.Labels[s.at]); s.verdict().Kind == rollout.WaitGroup && why != "" {
		return append(values, Value{"waits", why})
	}
	if text := r.OrderOf(s.m.Labels[s.at]); s.verdict().Kind == rollout.WaitOrder && text != "" {
		values = append(values, Value{"order", text})
	}
	if s.byPolicy() {
		for _, b := range r.Blocking {
			values = append(values, Value{"waits", b.Message})
		}
		for _, m := range r.Measured() {
			values = append(values, Value{"analysis", m.Line()})
		}
	}
	return values
}

// wave describes the wave of the node.
func (s *subject) wave(k int) string {
	p := s.m.Governance.Policy()
	wave := p.Rules.Waves[k]
	r := s.m.Governance.Report()
	text := fmt.Sprintf("the node belongs to wave %s (%d of %d)", wave.Name, k+1, max(r.Total, k+1))
	for i := range r.Waves {
		if st := &r.Waves[i]; st.Name == wave.Name {
			text += fmt.Sprintf(", which is %s: %d of %d nodes updated and available", r.PhaseOf(st), st.Available, st.Nodes)
		}
	}
	return text
}

// byPolicy reports whether a policy is the reason why the node waits.
func (s *subject) byPolicy() bool {
	return s.verdict().Kind.OfPolicy()
}

// nextByPolicy returns when a policy lets the node be updated, as far as that is known.
func (s *subject) nextByPolicy() string {
	r := s.m.Governance.Report()
	if r == nil || !s.byPolicy() {
		return ""
	}
	return r.NextAction(s.o.Now(), s.m.Set.String())
}

// remedyByPolicy returns what a user can do about a verdict of a policy.
func (s *subject) remedyByPolicy() string {
	set, p := s.m.Set.String(), s.m.Governance.Policy()
	switch kind := s.verdict().Kind; {
	case kind == rollout.WaitApproval:
		return options.Program + " approve " + set
	case kind == rollout.WaitAnalysis:
		return "correct what is measured or the provider, or end the analysis of this wave with " + options.Program + " promote " + set
	case kind == rollout.WaitGroup:
		return "wait until the other set is updated there, or correct it; if that cannot end, remove spec.concurrencyGroup from " + p.String()
	case kind == rollout.WaitSuspended:
		return options.Program + " resume " + p.String()
	case kind == rollout.WaitRejected:
		return s.m.Governance.Report().AfterRejection() + ", for example with " + options.Program + " undo " + set
	case kind == rollout.WaitFailed && s.m.Governance.Report().IsRejected():
		return s.m.Governance.Report().Remedy() + ": " + options.Program + " retry " + set
	case kind == rollout.WaitFailed:
		return "change the template, or roll the revision out again with " + options.Program + " retry " + set
	case kind == rollout.WaitConflict:
		return "change spec.targets so that one policy remains"
	case kind == rollout.WaitOnDelete: // the annotation everynode.dev/committed has no effect on a set that only a policy updates
		return inspect.AfterDeletionOnDelete(set)
	case p == nil:
		return inspect.AfterDeletion
	case s.m.Governance.Now != nil && s.m.Governance.Now.Phase == v1alpha1.PhaseStalled:
		return "correct " + p.String() + ": kubectl describe " + p.String()
	default:
		return ""
	}
}
