// SPDX-License-Identifier: Apache-2.0

package approve

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/cli/change"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/policies"
	"everynode.dev/everynode/internal/cli/resolver"
	"everynode.dev/everynode/internal/policy"
)

// situation is what a decision is about.
type situation struct {
	*verb
	set    *resolver.Set
	policy *policies.Policy
	status *v1alpha1.SetStatus
	// approvals are the approvals in the namespace; empty if they cannot be read.
	approvals []v1alpha1.RolloutApproval
	// wave is the wave of the decision; empty for a rejection.
	wave string
}

// situation finds the rollout that a decision is about, and its wave.
func (v *verb) situation(ctx context.Context, c *options.Clients, set *resolver.Set, p *policies.Policy) (*situation, error) {
	s := &situation{verb: v, set: set, policy: p, status: p.Status(set), wave: v.wave}
	switch {
	case s.status == nil:
		return nil, fmt.Errorf("%s reports nothing about %s yet: wait until a manager of Everynode has read it, and see `%s doctor`", p, set.Title(), options.Program)
	case s.status.TargetRevision == "" || s.status.TargetRevision == s.status.CommittedRevision:
		return nil, fmt.Errorf("no rollout of %s is active: %s reports the phase %s, so there is nothing to %s", set.Title(), p, s.status.Phase, v.word())
	case v.revision != "" && v.revision != s.status.TargetRevision:
		return nil, fmt.Errorf("the rollout of %s is of revision %s now, not of %s (--revision): look at it with `%s status %s`, and decide again",
			set.Title(), s.status.TargetRevision, v.revision, options.Program, set)
	}
	var err error
	if s.approvals, err = policies.Approvals(ctx, c, set.Namespace()); err != nil && !apierrors.IsForbidden(err) {
		return nil, err
	}
	s.approvals = p.Recall(s.approvals)
	switch v.decision {
	case v1alpha1.Reject, v1alpha1.UndoRollout, v1alpha1.Retry:
		return s, nil
	}
	if failure := s.status.Failure; failure != nil {
		return nil, fmt.Errorf("revision %s has failed, so there is nothing to %s: change the template, or roll it out again with `%s retry %s`. %s",
			s.status.TargetRevision, v.word(), options.Program, s.set, failure.Message)
	}
	if rejection := s.earlier(v1alpha1.Reject, ""); rejection != nil {
		return nil, fmt.Errorf("revision %s was rejected by rolloutapproval/%s%s: delete that one first (kubectl delete rolloutapproval %s), or change the template",
			s.status.TargetRevision, rejection.Name, by(rejection), rejection.Name)
	}
	if s.wave == "" {
		err = s.open()
	}
	return s, err
}

// word is the verb for messages.
func (v *verb) word() string { return strings.ToLower(string(v.decision)) }

// open finds the wave that waits for the decision.
func (s *situation) open() error {
	waits, what := v1alpha1.WaveWaitingForApproval, "no approval is open"
	if s.decision == v1alpha1.Promote {
		waits, what = v1alpha1.WaveSoaking, "no wave soaks"
	}
	now, remedy := "", "wait"
	for i := range s.status.Waves {
		w := &s.status.Waves[i]
		if w.Phase == waits || s.decision == v1alpha1.Promote && s.deserted(w.Name) {
			s.wave = w.Name
			return nil
		}
		if w.Name == s.status.Wave {
			now, remedy = s.activeWave(w)
		}
	}
	if given := s.inAdvance(); given != nil {
		return fmt.Errorf("nothing waits for you: %s in advance%s (rolloutapproval/%s), and the rollout of %s is %s%s", s.alreadyOf(given.Spec.Wave), by(given), given.Name, s.set.Title(), s.status.Phase, now)
	}
	name := s.candidate()
	if never := s.never(); name == "" && never != "" {
		return fmt.Errorf("%s: the rollout of %s to revision %s is %s%s; %s", what, s.set.Title(), s.status.TargetRevision, s.status.Phase, now, never)
	}
	if name != "" {
		remedy += fmt.Sprintf(", or name a wave to %s it in advance: --wave %s", s.word(), name)
	}
	return fmt.Errorf("%s: the rollout of %s to revision %s is %s%s; %s", what, s.set.Title(), s.status.TargetRevision, s.status.Phase, now, remedy)
}

// never says that no wave waits for an approval any more, or ever, and what holds the rollout is something else; empty if one does, or the decision is another one.
func (s *situation) never() string {
	if s.decision != v1alpha1.Approve {
		return ""
	}
	asks := false
	for i := range s.policy.Typed.Spec.Waves {
		asks = asks || len(s.policy.Typed.Spec.Waves[i].After) > 0
	}
	see := fmt.Sprintf("see what it waits for with `%s status %s`", options.Program, s.set)
	if !asks {
		return fmt.Sprintf("no wave of %s needs an approval (spec.waves[].after): %s", s.policy, see)
	}
	return "no wave that is left needs an approval: " + see
}

// activeWave describes the active wave in a sentence that has the phase of the rollout, and what a user can do about it other than the decision.
func (s *situation) activeWave(w *v1alpha1.WaveStatus) (now, remedy string) {
	if now = " in its wave " + w.Name; string(w.Phase) != string(s.status.Phase) {
		now += fmt.Sprintf(", which is %s", w.Phase)
	}
	switch {
	case s.decision == v1alpha1.Promote && w.Phase == v1alpha1.WaveWaitingForApproval:
		return now, fmt.Sprintf("approve the wave with `%s approve %s`", options.Program, s.set)
	case s.decision == v1alpha1.Approve && w.Phase == v1alpha1.WaveSoaking:
		return now, fmt.Sprintf("wait for the end of the soak, or end it with `%s promote %s`", options.Program, s.set)
	default:
		return now, "wait"
	}
}

// deserted reports whether a rollout has stopped because the nodes of a wave are gone, or they, or those of a step of its growth or of a zone, are left out.
func (s *situation) deserted(wave string) bool {
	return s.status.Wave == wave && slices.ContainsFunc(s.status.Blocking, func(b v1alpha1.Blocking) bool {
		return b.Reason == policy.NodesGone || b.Reason == policy.NodesLeftOut
	})
}

// inAdvance is a decision that was made before its wave waits for it, if there is no other wave to decide about; nil for none.
func (s *situation) inAdvance() *v1alpha1.RolloutApproval {
	if s.candidate() != "" {
		return nil
	}
	for i := range s.status.Waves {
		if w := &s.status.Waves[i]; !s.past(w) {
			if given := s.earlier(s.decision, w.Name); given != nil {
				return given
			}
		}
	}
	return nil
}

// past reports whether a wave no longer needs the decision.
func (s *situation) past(w *v1alpha1.WaveStatus) bool {
	return w.Phase == v1alpha1.WavePassed || s.decision == v1alpha1.Promote && w.Phase == v1alpha1.WaveWaitingForApproval
}

// candidate is a wave for which the decision could be made in advance; empty for none.
func (s *situation) candidate() string {
	for i := range s.status.Waves {
		w := &s.status.Waves[i]
		if !s.past(w) && s.needs(w.Name) && s.earlier(s.decision, w.Name) == nil {
			return w.Name
		}
	}
	return ""
}

// needs reports whether a wave waits for the decision at some time.
func (s *situation) needs(wave string) bool {
	w, _ := s.policy.Wave(wave)
	switch {
	case w == nil:
		return false
	case s.decision == v1alpha1.Promote:
		return w.Soak != nil && w.Soak.Duration > 0 || len(w.Analysis) > 0 || s.deserted(wave)
	default:
		return len(w.After) > 0
	}
}

// check returns an error if the decision would have no effect.
func (s *situation) check() error {
	rejections := policies.Rejections(s.approvals, s.policy.Typed.Name, s.status)
	switch failure := s.status.Failure; {
	case s.decision == v1alpha1.Retry && (len(rejections) > 0 || failure == nil && s.status.Phase == v1alpha1.PhaseRejected):
		return fmt.Errorf("revision %s of %s was rejected, so a retry has no effect: %s", s.status.TargetRevision, s.set.Title(), policies.AfterRejection(rejections))
	case s.decision == v1alpha1.Retry && failure == nil:
		return fmt.Errorf("revision %s has not failed: the rollout of %s is %s, so there is nothing to retry", s.status.TargetRevision, s.set.Title(), s.status.Phase)
	case s.decision == v1alpha1.UndoRollout && failure != nil && failure.Action == v1alpha1.FailureUndo:
		if reason, why := policy.UndoHeld(s.status); reason != "" {
			return fmt.Errorf("the undo of revision %s was decided already, and returns no node now (%s): %s", s.status.TargetRevision, reason, why)
		}
		return fmt.Errorf("revision %s is undone already: %s reports the phase %s. %s", s.status.TargetRevision, s.policy, s.status.Phase, failure.Message)
	case s.decision == v1alpha1.UndoRollout && s.status.Enforcement != v1alpha1.EnforcementFull && s.status.Enforcement != v1alpha1.EnforcementOnDelete:
		return fmt.Errorf("%s enforces only %s for %s, so the policy cannot return nodes: change the template, for example with `%s undo %s`",
			s.policy, s.status.Enforcement, s.set.Title(), options.Program, s.set)
	}
	if before := s.earlier(s.decision, s.wave); before != nil {
		return fmt.Errorf("%s%s: rolloutapproval/%s", s.already(), by(before), before.Name)
	}
	if s.wave == "" {
		return nil
	}
	w, path := s.policy.Wave(s.wave)
	switch {
	case w == nil:
		return options.Usagef("%s has no wave %q that can be named: it has %s", s.policy, s.wave, s.names())
	case s.needs(s.wave):
	case s.decision == v1alpha1.Promote:
		return options.Usagef("the wave %s has no soak to end: neither %s.soak nor %s.analysis of %s is set", s.wave, path, path, s.policy)
	default:
		return options.Usagef("the wave %s needs no approval: %s.after of %s has no gate of the type Approval", s.wave, path, s.policy)
	}
	for i := range s.status.Waves {
		if st := &s.status.Waves[i]; st.Name == s.wave && st.Phase == v1alpha1.WavePassed {
			return fmt.Errorf("the wave %s of revision %s has passed already, so there is nothing to %s", s.wave, s.status.TargetRevision, s.word())
		}
	}
	return nil
}

func (s *situation) names() string {
	var names []string
	for i := range s.policy.Typed.Spec.Waves {
		names = append(names, s.policy.Typed.Spec.Waves[i].Name)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// already returns the sentence that the decision exists.
func (s *situation) already() string { return s.alreadyOf(s.wave) }

// alreadyOf is already about a wave.
func (s *situation) alreadyOf(wave string) string {
	switch s.decision {
	case v1alpha1.Reject:
		return fmt.Sprintf("revision %s is already rejected", s.status.TargetRevision)
	case v1alpha1.UndoRollout:
		return fmt.Sprintf("the undo of revision %s is already requested", s.status.TargetRevision)
	case v1alpha1.Retry:
		return fmt.Sprintf("the retry of revision %s is already requested", s.status.TargetRevision)
	case v1alpha1.Promote:
		return fmt.Sprintf("the soak of the wave %s of revision %s is already ended", wave, s.status.TargetRevision)
	default:
		return fmt.Sprintf("the wave %s of revision %s is already approved", wave, s.status.TargetRevision)
	}
}

// earlier returns an existing decision that counts for this rollout; nil for none.
func (s *situation) earlier(decision v1alpha1.Decision, wave string) *v1alpha1.RolloutApproval {
	for i := range s.approvals {
		a := &s.approvals[i]
		about := (a.Spec.Policy == s.policy.Typed.Name || decision == v1alpha1.Reject) && a.Spec.Set == s.set.Name() && a.Spec.Revision == s.status.TargetRevision
		once := decision == v1alpha1.Retry || decision == v1alpha1.UndoRollout // it has no effect any more once the manager has judged it
		counts := a.Status.State == "" || !once && s.valid(a) && !(decision == v1alpha1.Promote && s.another(a))
		if about && counts && a.DeletionTimestamp == nil && a.Spec.Decision == decision && (wave == "" || a.Spec.Wave == wave) {
			return a
		}
	}
	return nil
}

// another reports whether a decision of the kind Promote, which has had its effect, leaves something to decide about its wave: it went on without some nodes, and did not end the soak; or it ended the soak in
// advance, and nodes are gone or left out.
func (s *situation) another(a *v1alpha1.RolloutApproval) bool {
	return a.Status.Step > 0 || a.Status.Domain != "" || a.Status.Message != "" || s.deserted(a.Spec.Wave)
}

// valid reports whether the manager counts a decision for the active attempt. A rejection applies to all attempts. Any other decision is not older than the rollout, apart from clocks that differ.
func (s *situation) valid(a *v1alpha1.RolloutApproval) bool {
	if began := s.status.StartedAt; began != nil && a.CreationTimestamp.Add(policy.ClocksDiffer).Before(began.Time) && a.Spec.Decision != v1alpha1.Reject {
		return false
	}
	return a.Status.State == v1alpha1.ApprovalValid && a.Status.TargetNumber == s.status.TargetNumber &&
		(a.Spec.Decision == v1alpha1.Reject || max(a.Status.Attempt, 1) == max(s.status.Attempt, 1))
}

// by names the user of a decision.
func by(a *v1alpha1.RolloutApproval) string {
	if a.Spec.By == "" {
		return ""
	}
	return " by " + a.Spec.By
}

// done returns what was done. With a dry run it is what would be done, and the approval has no name yet.
func (s *situation) done(object *unstructured.Unstructured) string {
	if s.Dry() {
		return "a RolloutApproval would be created: " + s.effect()
	}
	name := object.GetName()
	if name == "" {
		name = object.GetGenerateName()
	}
	return fmt.Sprintf("rolloutapproval.everynode.dev/%s created: ", name) + s.effect()
}

// effect is what a decision does, or with a dry run, would do.
func (s *situation) effect() string {
	verb := func(does, would string) string {
		if s.Dry() {
			return would
		}
		return does
	}
	is := verb("is", "would be")
	switch s.decision {
	case v1alpha1.Reject:
		return fmt.Sprintf("revision %s of %s %s rejected", s.status.TargetRevision, s.set, is)
	case v1alpha1.UndoRollout:
		if s.status.Enforcement == v1alpha1.EnforcementOnDelete {
			return fmt.Sprintf("the undo of revision %s of %s %s requested", s.status.TargetRevision, s.set, is)
		}
		return fmt.Sprintf("the nodes of %s %s to revision %s", s.set, verb("return", "would return"), s.status.CommittedRevision)
	case v1alpha1.Retry:
		return fmt.Sprintf("revision %s of %s %s rolled out again", s.status.TargetRevision, s.set, is)
	case v1alpha1.Promote:
		if s.deserted(s.wave) {
			return fmt.Sprintf("the rollout of %s, revision %s, %s on without the nodes of wave %s that are gone or left out", s.set, s.status.TargetRevision, verb("goes", "would go"), s.wave)
		}
		return fmt.Sprintf("the soak of wave %s of %s, revision %s, %s", s.wave, s.set, s.status.TargetRevision, verb("ends", "would end"))
	default:
		return fmt.Sprintf("wave %s of %s, revision %s, %s approved%s", s.wave, s.set, s.status.TargetRevision, is, s.advance())
	}
}

// advance returns the sentence that a wave does not wait for its approval yet; empty if it does.
func (s *situation) advance() string {
	for i := range s.status.Waves {
		if w := &s.status.Waves[i]; w.Name == s.wave && w.Phase != v1alpha1.WaveWaitingForApproval {
			return fmt.Sprintf(" in advance: the wave is %s, and does not wait for you when it has soaked", w.Phase)
		}
	}
	return ""
}

// notes prints what else keeps the rollout from continuing.
func (s *situation) notes() {
	if s.policy.Typed.Spec.Suspend && s.decision != v1alpha1.Reject {
		change.Note(s.Options, "%s is suspended: nothing starts before `%s resume %s`", s.policy, options.Program, s.policy)
	}
	if s.decision == v1alpha1.UndoRollout && s.status.Enforcement == v1alpha1.EnforcementOnDelete {
		change.Note(s.Options, "another controller creates the pods of %s, so the manager must change the template back. If it may not, no further node is updated, nodes with revision %s keep it, and the status of %s reports "+
			"UndoNotPossible (another field manager owns the template: change it there) or UndoRefused (bind the ClusterRole everynode-manager-undo) below blocking: see `%s status %s`",
			s.set, s.status.TargetRevision, s.policy, options.Program, s.set)
	}
	w, _ := s.policy.Wave(s.wave)
	if s.decision == v1alpha1.Promote && len(w.After) > 0 && s.earlier(v1alpha1.Approve, s.wave) == nil {
		change.Note(s.Options, "the wave %s needs an approval as well: `%s approve %s`", s.wave, options.Program, s.set)
	}
}

// explain adds the request, and the role that has the right, to an error.
func explain(err error, namespace string) error {
	asked := options.Request{Verb: "create", Resource: policies.ApprovalResource().GroupResource(), Namespace: namespace}
	explained := options.Explain(err, asked)
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), `" cannot create resource "`) {
		return fmt.Errorf("%w; the ClusterRole %s has this right: kubectl create rolebinding NAME --clusterrole %s --user USER -n %s", explained, approver, approver, namespace)
	}
	return explained
}
