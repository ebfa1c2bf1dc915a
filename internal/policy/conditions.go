// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// The reasons of conditions that mayEnd is about.
const (
	targetMissing   = "TargetMissing"
	revisionRefused = "RevisionRefused"
)

// missing are the targets with a name for which there is no daemon set.
func (p *Policy) missing(sets []v1alpha1.SetStatus) []string {
	var names []string
	for i := range p.targets {
		t := &p.targets[i]
		there := slices.ContainsFunc(sets, func(s v1alpha1.SetStatus) bool {
			return s.Name == t.name && s.APIVersion == Set{Advanced: t.advanced}.APIVersion()
		})
		if t.selector == nil && !there {
			names = append(names, Set{Advanced: t.advanced, Name: t.name}.Title())
		}
	}
	return names
}

// unused are the paths of the selectors that select none of the sets that the policy applies to.
func (p *Policy) unused(selected []Set) []string {
	var paths []string
	for i := range p.targets {
		t := &p.targets[i]
		selects := func(s Set) bool { return t.advanced == s.Advanced && t.selector.Matches(labels.Set(s.Labels)) }
		if t.selector != nil && !slices.ContainsFunc(selected, selects) {
			paths = append(paths, fmt.Sprintf("spec.targets[%d].selector", i))
		}
	}
	return paths
}

// Conditions returns the conditions of a policy that applies to the selected sets, from what is reported of them. Conditions of other types stay as they are.
func (p *Policy) Conditions(selected []Set, sets []v1alpha1.SetStatus, before []metav1.Condition, now metav1.Time) []metav1.Condition {
	stalled, reason := p.stalled(sets)
	active, why := active(p, sets)
	after := slices.Clone(before)
	put := func(kind string, status metav1.ConditionStatus, reason, message string) {
		meta.SetStatusCondition(&after, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: Shortened(message, mostInCondition), ObservedGeneration: p.Generation, LastTransitionTime: now})
	}
	set := func(kind string, is bool, reason, message string) {
		status := metav1.ConditionFalse
		if is {
			status = metav1.ConditionTrue
		}
		put(kind, status, reason, message)
	}
	switch {
	case stalled != "" && mayEnd(reason) && !lasts(before, now):
		set(v1alpha1.ConditionReady, false, reason, stalled)
		set(v1alpha1.ConditionReconciling, true, reason, stalled)
		put(v1alpha1.ConditionStalled, metav1.ConditionUnknown, reason, fmt.Sprintf("This often ends by itself. The policy is stalled if it lasts for %d minutes.", int(rollout.StallAfter.Minutes())))
	case stalled != "":
		set(v1alpha1.ConditionReady, false, reason, stalled)
		set(v1alpha1.ConditionReconciling, false, reason, stalled)
		set(v1alpha1.ConditionStalled, true, reason, stalled)
	case active != "":
		set(v1alpha1.ConditionReady, false, why, active)
		set(v1alpha1.ConditionReconciling, true, why, active)
		set(v1alpha1.ConditionStalled, false, "Progressing", "Nothing keeps the policy from being followed.")
	default:
		message := ready(sets)
		if paths := p.unused(selected); len(paths) > 0 {
			message += fmt.Sprintf(" No daemon set is selected by %s.", strings.Join(paths, ", "))
		}
		message += foreseen(sets)
		set(v1alpha1.ConditionReady, true, "Complete", message)
		set(v1alpha1.ConditionReconciling, false, "Complete", message)
		set(v1alpha1.ConditionStalled, false, "Complete", notStalled(sets))
	}
	meta.SetStatusCondition(&after, p.enforced(sets, now))
	return after
}

// mayEnd reports whether what keeps a policy from being followed often ends by itself: one tool applies a policy and then its daemon set, and a refused ControllerRevision is written again.
func mayEnd(reason string) bool { return reason == targetMissing || reason == revisionRefused }

// lasts reports whether a policy has been Stalled, or it has been unknown for rollout.StallAfter whether it is.
func lasts(before []metav1.Condition, now metav1.Time) bool {
	from := StalledFrom(before)
	return meta.IsStatusConditionTrue(before, v1alpha1.ConditionStalled) || !from.IsZero() && !now.Time.Before(from)
}

// StalledFrom returns when a policy becomes Stalled if nothing changes; zero if it does not. No event announces it. The time counts from when Stalled became unknown:
// a rollout may have been Reconciling for hours before something keeps it from being followed.
func StalledFrom(conditions []metav1.Condition) time.Time {
	c := meta.FindStatusCondition(conditions, v1alpha1.ConditionStalled)
	if c == nil || c.Status != metav1.ConditionUnknown || !mayEnd(c.Reason) {
		return time.Time{}
	}
	return c.LastTransitionTime.Add(rollout.StallAfter)
}

// Kept returns what keeps a policy from being followed, and the status of its condition Stalled: True, or Unknown while that may end by itself. It is empty if nothing does.
func Kept(conditions []metav1.Condition) (message string, stalled metav1.ConditionStatus) {
	c := meta.FindStatusCondition(conditions, v1alpha1.ConditionStalled)
	switch {
	case c == nil || c.Status == metav1.ConditionFalse:
		return "", metav1.ConditionFalse
	case c.Status == metav1.ConditionTrue:
		return c.Message, c.Status
	}
	if c = meta.FindStatusCondition(conditions, v1alpha1.ConditionReconciling); c != nil {
		message = c.Message
	}
	return message, metav1.ConditionUnknown
}

// enforced returns the condition Enforced: whether the policy controls everything. It is unknown while there is nothing to control, or no rule to control it by.
func (p *Policy) enforced(sets []v1alpha1.SetStatus, now metav1.Time) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionEnforced, Status: metav1.ConditionUnknown, ObservedGeneration: p.Generation, LastTransitionTime: now}
	loose := loosely(sets)
	switch {
	case len(p.Problems) > 0:
		c.Reason, c.Message = "Invalid", "The policy is not followed, because its specification is invalid. The condition Stalled has the details."
	case len(sets) == 0:
		c.Reason, c.Message = "NoDaemonSet", "The policy applies to no daemon set."
	case loose != "":
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, "Partly", loose
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, "Full", "Everynode creates and deletes the pods, so the policy applies in full."
	}
	return c
}

// loosely returns what the policy does not control; empty if it controls everything.
func loosely(sets []v1alpha1.SetStatus) string {
	var texts setTexts
	for i := range sets {
		if text := NotHeld(sets[i].Enforcement); text != "" {
			texts.add(sets[i].Name, text)
		}
	}
	return texts.String()
}

// NotHeld is what a policy cannot hold of a set; empty if it holds everything.
func NotHeld(e v1alpha1.Enforcement) string {
	switch e {
	case v1alpha1.EnforcementOnDelete:
		return "another controller creates the pods, so a pod that joins or is replaced gets the newest revision, joiningNodes has no effect, no node surges, and an undo must change the template"
	case v1alpha1.EnforcementAnnouncements:
		return "the owner of each node decides when its pod is updated, whatever the pace"
	case v1alpha1.EnforcementNone:
		return "nothing is controlled"
	default:
		return ""
	}
}

// stalled is the reason why the policy cannot be followed; empty if it can.
func (p *Policy) stalled(sets []v1alpha1.SetStatus) (message, reason string) {
	if len(p.Problems) > 0 {
		return strings.Join(p.Problems, "; "), "Invalid"
	}
	for i := range sets {
		s := &sets[i]
		ends := s.Phase == v1alpha1.PhaseStalled || s.Phase == v1alpha1.PhaseFailed || s.Phase == v1alpha1.PhaseRejected
		if ends && len(s.Blocking) > 0 {
			return fmt.Sprintf("%s: %s", s.Name, s.Blocking[0].Message), s.Blocking[0].Reason
		}
	}
	if names := p.missing(sets); len(names) > 0 {
		return fmt.Sprintf("There is no %s that the manager serves: create it, start the manager with the dialect that serves it, or change spec.targets.", strings.Join(names, " and no ")), targetMissing
	}
	if len(sets) == 0 {
		return "The targets select no daemon set: change spec.targets, or label a daemon set.", targetMissing
	}
	return "", ""
}

// active describes the active rollouts, and the sets without any available pod, with the reason of conditions about them; empty if there are none, or if all rollouts wait after a wave and the policy
// counts as ready then.
func active(p *Policy, sets []v1alpha1.SetStatus) (text, reason string) {
	var texts setTexts
	reason = noPodAvailable
	for i := range sets {
		s := &sets[i]
		if s.Phase == v1alpha1.PhaseComplete || p.Settled(s) {
			if text := blocking(s, noPodAvailable); text != "" {
				texts.add(s.Name, text)
			}
			continue
		}
		reason = "RollingOut"
		text := string(s.Phase)
		if s.Wave != "" {
			text += " in wave " + s.Wave
		}
		texts.add(s.Name, text+frozen(s)+grouped(s))
	}
	text = texts.String()
	if without := withoutNodes(sets); text != "" && without != "" {
		text += "; " + without
	}
	return text, reason
}

// frozen says that a freeze is what a set in the phase WaitingForWindow waits for; empty if it is a window.
func frozen(s *v1alpha1.SetStatus) string {
	switch {
	case s.Phase != v1alpha1.PhaseWaitingForWindow || s.Next == nil || s.Next.Action != v1alpha1.ActionEndFreeze:
		return ""
	case s.Next.At == nil:
		return ", because a freeze is active that has no end in sight"
	default:
		return ", because a freeze is active until " + s.Next.At.UTC().Format(time.RFC3339)
	}
}

// grouped says that nodes wait for the concurrency group; empty if none does.
func grouped(s *v1alpha1.SetStatus) string {
	if s.Phase == v1alpha1.PhaseRolling && blocks(s, HeldByGroup) {
		return ", in which nodes wait for another daemon set of the concurrency group"
	}
	return ""
}

// withoutNodes describes the waves of the specification that have no nodes, for example because earlier waves have them all: nothing is observed there.
func withoutNodes(sets []v1alpha1.SetStatus) string {
	var texts setTexts
	for i := range sets {
		var names []string
		for k := range sets[i].Waves {
			if w := &sets[i].Waves[k]; w.Nodes == 0 && w.Gone == 0 && w.Name != Remaining {
				names = append(names, w.Name)
			}
		}
		if len(names) > 0 {
			texts.add(sets[i].Name, "waves without nodes: "+strings.Join(names, ", "))
		}
	}
	return texts.String()
}

// Settled reports whether the rollout of a set waits after a wave that is complete and healthy, and that is enough for the policy to be ready.
func (p *Policy) Settled(s *v1alpha1.SetStatus) bool {
	if !p.WaveHealthy || !available(s) {
		return false
	}
	switch s.Phase {
	case v1alpha1.PhaseSoaking:
		return passes(s)
	case v1alpha1.PhaseWaitingForApproval:
		return true
	case v1alpha1.PhaseWaitingForWindow: // between two waves, and not while nodes return to the committed revision
		return s.TargetRevision != s.CommittedRevision && !slices.ContainsFunc(s.Waves, func(w v1alpha1.WaveStatus) bool {
			return w.Phase != v1alpha1.WavePassed && w.Phase != v1alpha1.WavePending
		})
	default:
		return false
	}
}

// available reports whether all nodes of the waves that have begun are available, and there are any.
func available(s *v1alpha1.SetStatus) bool {
	some := false
	for i := range s.Waves {
		if w := &s.Waves[i]; w.Phase != v1alpha1.WavePending {
			if w.Available < w.Nodes {
				return false
			}
			some = some || w.Nodes > 0
		}
	}
	return some
}

// passes reports whether no analysis of the active wave has an answer other than Pass.
func passes(s *v1alpha1.SetStatus) bool {
	return !slices.ContainsFunc(s.Analyses, func(as v1alpha1.AnalysisStatus) bool { return as.Wave == s.Wave && as.Answer != v1alpha1.AnswerPass })
}

// notStalled is why a policy is not stalled whose rollouts are complete or wait after a wave. Without an active rollout, the condition Ready may name a mistake that stops the next one.
func notStalled(sets []v1alpha1.SetStatus) string {
	if slices.ContainsFunc(sets, func(s v1alpha1.SetStatus) bool { return s.Phase != v1alpha1.PhaseComplete }) {
		return "Nothing keeps the policy from being followed."
	}
	return "No rollout is active."
}

func ready(sets []v1alpha1.SetStatus) string {
	if slices.ContainsFunc(sets, func(s v1alpha1.SetStatus) bool { return s.Phase != v1alpha1.PhaseComplete }) {
		return "The active waves are complete and available."
	}
	if len(sets) == 1 {
		return "All nodes of 1 daemon set have the committed revision."
	}
	return fmt.Sprintf("All nodes of %d daemon sets have the committed revision.", len(sets))
}

// foreseen describes where the next rollouts of sets would stop.
func foreseen(sets []v1alpha1.SetStatus) string {
	var texts setTexts
	for i := range sets {
		if s := &sets[i]; s.Phase == v1alpha1.PhaseComplete {
			for _, b := range s.Blocking {
				texts.add(s.Name, b.Message)
			}
		}
	}
	if len(texts.all) == 0 {
		return ""
	}
	return " " + texts.joined(" ")
}
