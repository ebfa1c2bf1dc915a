// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/policies"
	"everynode.dev/everynode/internal/policy"
)

// PolicyReport is the report of the rollout policy of a set, for machine-readable output.
type PolicyReport struct {
	Name      string `json:"name"`
	Namespace string `json:"-"`
	// Others are further policies that apply to the set; then none is followed.
	Others []string `json:"others,omitempty"`
	// Reported reports whether a manager has reported it. Otherwise it is what a manager would report now.
	Reported bool `json:"reported"`
	// Position is the number of the active wave, from 1; 0 if none is active. Total is the number of waves.
	Position int `json:"position,omitempty"`
	Total    int `json:"total,omitempty"`
	// Suspended reports whether the policy is suspended now. What a manager has stored may be older.
	Suspended bool `json:"suspended,omitempty"`
	// Stalled is why the policy cannot be followed, if that is not in the status of the set: another target is missing, for example.
	Stalled string `json:"stalled,omitempty"`
	// Waits is the same while that may end by itself: the policy becomes stalled if it lasts.
	Waits string `json:"waits,omitempty"`
	// SetStatus has the implicit wave for the remaining nodes only if there are such nodes, or if it is active.
	v1alpha1.SetStatus
	// now is what a manager would report now; empty if that is not known. A user may have retried the revision, or taken a rejection back, since the last report.
	now v1alpha1.SetStatus
	// rejections are the names of the approvals that reject the revision.
	rejections []string
	// promotions are the names of the approvals that end a soak.
	promotions []string
	// rules are those of the policy; nil if they are not known.
	rules *policy.Policy
	// Allowed are the analyses of the policy that the status has measurements of.
	Allowed []v1alpha1.Analysis `json:"allowed,omitempty"`
	// Decisions are those of users that count for the revision.
	Decisions []Decision `json:"decisions,omitempty"`
}

// end returns an outcome as of the policy. The rollout is finished when the manager has stored that it is complete: the nodes alone end it as little as a policy that no
// manager has reported yet. A revision that has failed or was rejected gets no further by itself. A policy that controls nothing of the set says nothing about it.
func (r *PolicyReport) end(o Outcome) Outcome {
	switch {
	case r == nil || o.State == Failed || r.Reported && r.Enforcement == v1alpha1.EnforcementNone:
	case r.gaveUp():
		o.State, o.Why = Failed, r.Headline()
	case o.State == Finished && !r.complete():
		o.State, o.Why = Rolling, r.unfinished()
	case o.State == Rolling && r.complete():
		o.Why += fmt.Sprintf("; rolloutpolicy/%s has completed the rollout, which does not wait for them", r.Name)
	}
	return o
}

// gaveUp reports whether the revision has failed or was rejected, and no user has retried it or deleted the rejection since the report.
func (r *PolicyReport) gaveUp() bool {
	return r.Reported && (r.Phase == v1alpha1.PhaseFailed || r.Phase == v1alpha1.PhaseRejected) && (r.now.Phase == "" || r.now.Phase == r.Phase)
}

// afterGivingUp describes what users can do then. A rejection also holds a revision that has failed, so a retry has no effect before it is deleted. set is the set as a user names it.
func (r *PolicyReport) afterGivingUp(set string) string {
	text := "nothing starts before a user returns to the previous revision, with kubectl everynode undo " + set
	failed, retry := r.Phase == v1alpha1.PhaseFailed, ", with kubectl everynode retry "+set
	switch {
	case failed && len(r.rejections) == 0:
		return text + ", or tries this one again" + retry
	case len(r.rejections) > 0:
		text += ", or deletes the rejection, with kubectl delete rolloutapproval " + strings.Join(r.rejections, " ")
	default:
		text += ", or deletes the RolloutApproval with the rejection"
	}
	if failed {
		text += ", and then tries this one again" + retry
	}
	return text
}

// complete reports whether the manager has stored that exactly the revision that the set has now is complete.
func (r *PolicyReport) complete() bool {
	return r.Reported && r.Phase == v1alpha1.PhaseComplete && r.TargetRevision != "" && r.CommittedRevision == r.TargetRevision &&
		r.now.TargetRevision == r.TargetRevision && r.now.TargetNumber == r.TargetNumber
}

// unfinished says why a rollout with updated nodes has not ended.
func (r *PolicyReport) unfinished() string {
	if !r.Reported || r.Phase == v1alpha1.PhaseComplete {
		return fmt.Sprintf("no manager of Everynode has reported yet that this rollout is complete under rolloutpolicy/%s: see `%s doctor` if this does not change", r.Name, options.Program)
	}
	text := r.Headline()
	for _, b := range r.Blocking {
		text += "; " + strings.TrimSuffix(b.Message, ".")
	}
	return text
}

// Report returns what the policy reports; nil without a policy. What the manager has stored counts, unless it is about another revision. If it controls nothing of the set, it
// says nothing about revisions, and we cannot know better.
func (g *Governance) Report() *PolicyReport {
	if len(g.Policies) == 0 {
		return nil
	}
	r := &PolicyReport{Name: g.Policies[0].Typed.Name, Namespace: g.Set.Namespace, Suspended: g.Policies[0].Typed.Spec.Suspend, rules: g.Policies[0].Rules}
	if g.Now != nil {
		r.now = *g.Now
	}
	for _, p := range g.Policies[1:] {
		r.Others = append(r.Others, p.Typed.Name)
	}
	switch {
	case g.Stored != nil && (g.unserved() || g.inConflict() || g.Now == nil || g.Now.TargetRevision == "" || g.Now.TargetRevision == g.Stored.TargetRevision):
		r.Reported, r.SetStatus = true, *g.Stored
	case g.Now != nil:
		r.SetStatus = *g.Now
	default:
		r.SetStatus = v1alpha1.SetStatus{APIVersion: g.Set.APIVersion(), Name: g.Set.Name, Phase: v1alpha1.PhaseStalled}
	}
	for i := range g.Approvals {
		if a := &g.Approvals[i]; a.Spec.Decision == v1alpha1.Promote {
			r.promotions = append(r.promotions, a.Name)
		}
	}
	r.rejections = policies.Rejections(g.Approvals, r.Name, &r.SetStatus)
	r.Decisions = r.decisions(g.Approvals)
	if message, stalled := policy.Kept(g.Policies[0].Typed.Status.Conditions); message != "" && !r.Says(message) {
		if stalled == metav1.ConditionTrue {
			r.Stalled = message
		} else {
			r.Waits = message
		}
	}
	if last := len(r.Waves) - 1; last >= 0 && r.Waves[last].Name == policy.Remaining && r.Waves[last].Nodes == 0 && r.Wave != policy.Remaining {
		r.Waves = r.Waves[:last] // all nodes belong to other waves
	}
	r.Total = len(r.Waves)
	r.Position = 1 + slices.IndexFunc(r.Waves, func(w v1alpha1.WaveStatus) bool { return w.Name == r.Wave })
	for _, a := range g.Policies[0].Typed.Spec.Analyses {
		if slices.ContainsFunc(r.Analyses, func(as v1alpha1.AnalysisStatus) bool { return as.Name == a.Name }) {
			r.Allowed = append(r.Allowed, a)
		}
	}
	return r
}

// inConflict reports whether the stored status is about a conflict of policies. Each policy then keeps the target that it knew before, also if the template has changed since.
func (g *Governance) inConflict() bool {
	return len(g.Policies) > 1 && slices.ContainsFunc(g.Stored.Blocking, func(b v1alpha1.Blocking) bool { return b.Reason == policy.SeveralPolicies })
}

// Remedy is what users can do about a revision that has failed or was rejected.
func (r *PolicyReport) Remedy() string {
	switch {
	case r != nil && r.Phase == v1alpha1.PhaseFailed && len(r.rejections) > 0:
		return r.AfterRejection() + "; a revision that has failed needs a retry as well"
	case r != nil && r.Phase == v1alpha1.PhaseRejected:
		return r.AfterRejection()
	}
	return "change the template, or retry the revision"
}

// IsRejected reports whether a user has rejected the revision, also if it had failed before.
func (r *PolicyReport) IsRejected() bool { return len(r.rejections) > 0 }

// AfterRejection is what users can do about a revision that was rejected.
func (r *PolicyReport) AfterRejection() string { return policies.AfterRejection(r.rejections) }

// Promoted reports whether the approval that a wave names has ended its soak, and is not an approval of the next wave.
func (r *PolicyReport) Promoted(w *v1alpha1.WaveStatus) bool {
	return slices.Contains(r.promotions, w.Approval)
}

// Says reports whether the status of the set contains a message: as a whole, or after the name of the set.
func (r *PolicyReport) Says(message string) bool {
	if r == nil {
		return false
	}
	text := strings.TrimSuffix(message, ".")
	return slices.ContainsFunc(r.Blocking, func(b v1alpha1.Blocking) bool {
		return strings.HasSuffix(message, b.Message) || text != "" && strings.HasSuffix(strings.TrimSuffix(b.Message, "."), text)
	})
}

// StopsBy reports whether the status of the set has that reason why nothing starts.
func (r *PolicyReport) StopsBy(reason string) bool {
	return slices.ContainsFunc(r.Blocking, func(b v1alpha1.Blocking) bool { return b.Reason == reason })
}

// Measured is what an analysis has measured, and what is allowed.
type Measured struct {
	Name, Wave, Answer, Value, Allowed, Failures, Message string
	// At is when it was measured; zero if it was not.
	At time.Time
}

// Measured returns what the analyses of the active wave, or of the last one, have measured.
func (r *PolicyReport) Measured() []Measured {
	var all []Measured
	for i := range r.Analyses {
		as := &r.Analyses[i]
		m := Measured{Name: as.Name, Wave: as.Wave, Answer: string(as.Answer), Value: "-", Allowed: "-", Failures: fmt.Sprint(as.Failures), Message: "Nothing has been measured yet."}
		for k := range r.Allowed {
			if a := &r.Allowed[k]; a.Name == as.Name {
				limit := int32(0)
				if a.FailureLimit != nil {
					limit = *a.FailureLimit
				}
				m.Allowed, m.Failures = a.Success, fmt.Sprintf("%d in a row, %d allowed", as.Failures, limit)
			}
		}
		if n := len(as.Measurements); n > 0 {
			newest := &as.Measurements[n-1]
			m.At, m.Message = newest.At.Time, newest.Message
			if newest.Value != "" {
				m.Value = newest.Value
			}
		}
		all = append(all, m)
	}
	return all
}

// Line is a Measured in one line.
func (m *Measured) Line() string {
	return fmt.Sprintf("%s of wave %s: %s; measured %s, allowed %s; failures: %s. %s", m.Name, m.Wave, m.Answer, m.Value, m.Allowed, m.Failures, m.Message)
}

// Policy returns the first policy; nil without one.
func (g *Governance) Policy() *policies.Policy {
	if len(g.Policies) == 0 {
		return nil
	}
	return g.Policies[0]
}

// PhaseOf is the phase of a wave. One that was active when the revision was rejected or failed does not continue from it.
func (r *PolicyReport) PhaseOf(w *v1alpha1.WaveStatus) string {
	active := w.Phase != v1alpha1.WavePending && w.Phase != v1alpha1.WavePassed
	if active && (r.Phase == v1alpha1.PhaseRejected || r.Phase == v1alpha1.PhaseFailed) {
		return fmt.Sprintf("%s (was %s)", r.Phase, w.Phase)
	}
	return string(w.Phase)
}

// Headline is the state of a policy in one line.
func (r *PolicyReport) Headline() string {
	text := fmt.Sprintf("rolloutpolicy/%s: %s", r.Name, r.Phase)
	if r.Position > 0 {
		w := &r.Waves[r.Position-1]
		text += fmt.Sprintf(", wave %s (%d of %d)%s: %d of %d nodes updated and available%s", r.Wave, r.Position, r.Total, r.at(w), w.Available, w.Nodes, r.mayFail(w))
	}
	if r.Enforcement != "" && r.Enforcement != v1alpha1.EnforcementFull {
		text += fmt.Sprintf("; enforcement %s", r.Enforcement)
	}
	return text
}

// at is the group of spec.order that the update of a wave has reached; empty without one.
func (r *PolicyReport) at(w *v1alpha1.WaveStatus) string {
	if w.Domain == "" || w.Phase != v1alpha1.WaveRolling {
		return ""
	}
	return ", at " + w.Domain
}

// mayFail is how many nodes of a wave have failed that may; empty if none has, or if the revision has failed.
func (r *PolicyReport) mayFail(w *v1alpha1.WaveStatus) string {
	if w.Failed == 0 || r.Failure != nil || r.rules == nil || r.rules.Failure == nil {
		return ""
	}
	return fmt.Sprintf("; %s failed, and %d may fail", NodeCount(int(w.Failed)), r.rules.Failure.MaxFailedNodes.Down(int(w.Nodes+w.Failed)))
}

// OrderOf says which group of spec.order a node with these labels belongs to, and which one the update of its wave has reached; empty without an order.
func (r *PolicyReport) OrderOf(labels map[string]string) string {
	if r == nil || r.rules == nil || r.rules.TopologyKey == "" {
		return ""
	}
	key := r.rules.TopologyKey
	text := fmt.Sprintf("the node has the label %s=%s", key, labels[key])
	if _, has := labels[key]; !has {
		text = "the node does not have the label " + key
	}
	text += ", and nodes with one value of it are updated at a time (spec.order)"
	for i := range r.Waves {
		if w := &r.Waves[i]; w.Name == r.Wave && w.Domain != "" {
			text += ": the wave " + w.Name + " has reached " + w.Domain
		}
	}
	return text
}

// Stopped is why nothing starts before a user acts, with the remedy; empty if the rollout continues without that. set is the set as a user names it.
func (r *PolicyReport) Stopped(set string) string {
	if r == nil || r.Enforcement == v1alpha1.EnforcementNone || r.Phase == v1alpha1.PhaseComplete {
		return ""
	}
	var parts []string
	switch {
	case r.Phase != v1alpha1.PhaseStalled:
	case len(r.Blocking) > 0:
		parts = append(parts, strings.TrimSuffix(r.Blocking[0].Message, "."))
	case r.Stalled != "":
		parts = append(parts, strings.TrimSuffix(r.Stalled, "."))
	}
	if len(parts) > 0 && r.Next == nil || r.Suspended || r.Next != nil && r.Next.Action == v1alpha1.ActionApprove {
		if next := r.NextAction(time.Time{}, set); next != "" {
			parts = append(parts, next)
		}
	}
	return strings.Join(parts, "; ")
}

// NextAction describes the next action and when it happens; empty if none is known. set is the set as a user names it.
func (r *PolicyReport) NextAction(now time.Time, set string) string {
	if len(r.Others) > 0 && r.Enforcement != v1alpha1.EnforcementNone { // to resume one of them starts nothing
		return "nothing starts before one policy remains: change spec.targets of rolloutpolicy/" + strings.Join(append([]string{r.Name}, r.Others...), " or rolloutpolicy/")
	}
	if r.Suspended && r.Enforcement != v1alpha1.EnforcementNone { // also if a soak, a window or a freeze has an end: nothing starts then
		return "nothing starts before a user resumes the policy, with kubectl everynode resume rolloutpolicy/" + r.Name
	}
	if r.Phase == v1alpha1.PhaseStalled && r.StopsBy(policy.Invalid) {
		return "nothing starts before a user corrects the policy, with kubectl edit rolloutpolicy " + r.Name
	}
	if r.gaveUp() && r.Enforcement != v1alpha1.EnforcementNone {
		return r.afterGivingUp(set)
	}
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
	switch {
	case r.Next.At == nil && r.Next.Action == v1alpha1.ActionEndFreeze:
		return "nothing starts before the freeze ends, which has no end in sight: change spec.freezes of rolloutpolicy/" + r.Name
	case r.Next.At == nil:
		return text
	}
	left, at := r.Next.At.Sub(now), r.Next.At.UTC().Format(time.RFC3339)
	switch {
	case left >= time.Second:
		return fmt.Sprintf("%s in %s (%s)", text, Age(left), at)
	case left < -overdue:
		return fmt.Sprintf("%s: overdue since %s (%s), because no manager of Everynode has reported since then; see %s doctor", text, at, Age(-left), options.Program)
	default:
		return text + " now"
	}
}

// overdue is how long after its time an action may still happen without a sign that no manager leads: about as long as another manager needs to take over.
const overdue = 15 * time.Second
