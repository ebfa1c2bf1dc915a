// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"fmt"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/cli/policies"
	"everynode.dev/everynode/internal/policy"
)

// PolicyReport is what the rollout policy of a set reports, for programs.
type PolicyReport struct {
	Name      string `json:"name"`
	Namespace string `json:"-"`
	// Others are further policies that apply to the set; then none is followed.
	Others []string `json:"others,omitempty"`
	// Reported is whether a manager has reported it. Otherwise it is what a manager would report now.
	Reported bool `json:"reported"`
	// Position is the number of the active wave, from 1; 0 if none is active. Total is the number of waves; the one for the remaining nodes counts if it
	// has nodes.
	Position int `json:"position,omitempty"`
	Total    int `json:"total,omitempty"`
	v1alpha1.SetStatus
}

// Report returns what the policy reports; nil without a policy. What the manager has stored counts, unless it is about another revision.
func (g *Governance) Report() *PolicyReport {
	if len(g.Policies) == 0 {
		return nil
	}
	r := &PolicyReport{Name: g.Policies[0].Typed.Name, Namespace: g.Set.Namespace}
	for _, p := range g.Policies[1:] {
		r.Others = append(r.Others, p.Typed.Name)
	}
	switch {
	case g.Stored != nil && (g.Now == nil || g.Now.TargetRevision == "" || g.Now.TargetRevision == g.Stored.TargetRevision):
		r.Reported, r.SetStatus = true, *g.Stored
	case g.Now != nil:
		r.SetStatus = *g.Now
	default:
		r.SetStatus = v1alpha1.SetStatus{APIVersion: g.Set.APIVersion(), Name: g.Set.Name, Phase: v1alpha1.PhaseStalled}
	}
	for i := range r.Waves {
		if r.Waves[i].Name == r.Wave {
			r.Position = i + 1
		}
		if w := &r.Waves[i]; w.Nodes > 0 || w.Name != policy.Remaining || r.Position == i+1 {
			r.Total = i + 1
		}
	}
	return r
}

// Policy returns the first policy; nil without one.
func (g *Governance) Policy() *policies.Policy {
	if len(g.Policies) == 0 {
		return nil
	}
	return g.Policies[0]
}

// Headline is the state of a policy in one line.
func (r *PolicyReport) Headline() string {
	text := fmt.Sprintf("rolloutpolicy/%s: %s", r.Name, r.Phase)
	if r.Position > 0 {
		w := &r.Waves[r.Position-1]
		text += fmt.Sprintf(", wave %s (%d of %d): %d of %d nodes updated and available", r.Wave, r.Position, r.Total, w.Available, w.Nodes)
	}
	if r.Enforcement != "" && r.Enforcement != v1alpha1.EnforcementFull {
		text += fmt.Sprintf("; enforcement %s", r.Enforcement)
	}
	return text
}

// NextAction describes the next action and when it happens; empty if none is known. set is the set as a user names it.
func (r *PolicyReport) NextAction(now time.Time, set string) string {
	if r.Next == nil {
		return ""
	}
	text := map[v1alpha1.Action]string{
		v1alpha1.ActionEndSoak: "the soak ends", v1alpha1.ActionOpenWindow: "a window opens", v1alpha1.ActionEndFreeze: "the freeze ends",
		v1alpha1.ActionStartUpdate: "the next update starts", v1alpha1.ActionApprove: "a user approves, with kubectl everynode approve " + set,
	}[r.Next.Action]
	if text == "" {
		text = string(r.Next.Action)
	}
	if r.Next.At == nil {
		return text
	}
	if left := r.Next.At.Sub(now); left > 0 {
		return fmt.Sprintf("%s in %s (%s)", text, Age(left), r.Next.At.UTC().Format(time.RFC3339))
	}
	return text + " now"
}
