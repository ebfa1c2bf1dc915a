// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"slices"
	"strings"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/cli/view"
	"everynode.dev/everynode/internal/policy"
)

// governs reports whether the policy decides which nodes of the set are updated.
func (r *PolicyReport) governs() bool { return r != nil && r.Enforcement != v1alpha1.EnforcementNone }

// Pace adds the soaks that are still to come to the remaining time of a rollout. While the policy holds the rollout, the speed of the past predicts nothing.
func (r *PolicyReport) Pace(pace view.Pace) view.Pace {
	if !r.governs() || !pace.Known {
		return pace
	}
	if r.Suspended || r.Phase != v1alpha1.PhaseRolling && r.Phase != v1alpha1.PhaseUndoing {
		return view.Pace{UpTo: view.UpTo{Policy: true}}
	}
	pace.Left += r.soaks()
	pace.Note = r.included()
	return pace
}

// wavesLeft returns the waves that have not ended, with their rules; the nodes that return to the committed revision do so without waves.
func (r *PolicyReport) wavesLeft() (waves []v1alpha1.WaveStatus, rules []policy.Wave) {
	if r.rules == nil || r.Phase.Ended() {
		return nil, nil
	}
	for i := range r.Waves {
		w := &r.Waves[i]
		at := slices.IndexFunc(r.rules.Waves, func(of policy.Wave) bool { return of.Name == w.Name })
		if at >= 0 && w.Phase != v1alpha1.WavePassed && w.Nodes > 0 {
			waves, rules = append(waves, *w), append(rules, r.rules.Waves[at])
		}
	}
	return waves, rules
}

// soaks is the time of the soaks that have not begun.
func (r *PolicyReport) soaks() (all time.Duration) {
	waves, rules := r.wavesLeft()
	for i := range waves {
		if waves[i].Phase == v1alpha1.WavePending || waves[i].Phase == v1alpha1.WaveRolling {
			all += rules[i].Soak
		}
	}
	return all
}

// included describes what the remaining time includes in addition to the updates, and what it does not, because the time of that is not known; empty if there is neither.
func (r *PolicyReport) included() string {
	if !r.governs() || r.rules == nil {
		return ""
	}
	var with, without []string
	if soaks := r.soaks(); soaks > 0 {
		with = append(with, "soaks of "+Age(soaks)+" included")
	}
	waves, rules := r.wavesLeft()
	if slices.ContainsFunc(rules, func(w policy.Wave) bool { return len(w.Analysis) > 0 }) {
		without = append(without, "analyses")
	}
	for i := range waves {
		if rules[i].Approval && waves[i].Approval == "" {
			without = append(without, "approvals")
			break
		}
	}
	if len(r.rules.Windows)+len(r.rules.Freezes) > 0 && (r.Phase != v1alpha1.PhaseUndoing || !r.rules.Undo.IgnoreWindows) {
		without = append(without, "closed windows")
	}
	if len(without) > 0 {
		with = append(with, "without "+strings.Join(without, " and "))
	}
	return strings.Join(with, ", ")
}

// afterWave is what follows when all nodes of the active wave are updated and available; empty if that is the end of the rollout, or is not known.
func (r *PolicyReport) afterWave() string {
	waves, rules := r.wavesLeft()
	for i := range waves {
		switch w := &waves[i]; {
		case w.Name != r.Wave:
		case rules[i].Soak > 0:
			return "wave " + w.Name + " soaks for " + Age(rules[i].Soak)
		case rules[i].Approval && w.Approval == "":
			return "wave " + w.Name + " waits for the approval of a user"
		case len(rules[i].Analysis) > 0:
			return "the analyses of wave " + w.Name + " must pass"
		case i+1 < len(waves):
			return "wave " + waves[i+1].Name + " begins"
		}
	}
	return ""
}
