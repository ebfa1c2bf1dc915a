// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/base"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/policyinput"
	"everynode.dev/everynode/internal/rollout"
)

// Policies are the rollout policies, as far as the loop needs them.
type Policies interface {
	// Of returns what applies to a set.
	Of(set policy.Set) Governance
	// Grouped returns the policies of a namespace that name a concurrency group.
	Grouped(namespace string) []*policy.Policy
	// Report takes the results of a pass: the status is nil for a set without a policy, and if nothing can be reported of the set, which keeps its last status then. judged are approvals whose status is to be written. If more than one
	// policy applies, each keeps what it remembers of the set (policy.InConflict).
	Report(set policy.Set, of []*policy.Policy, status *v1alpha1.SetStatus, judged []v1alpha1.RolloutApproval)
}

// Notices take what programs outside of the cluster are notified of. No pass waits for that.
type Notices interface {
	// Notify takes notices that belong to the status which was reported last.
	Notify(notices []policy.Notice)
}

// Governance is what applies to a set.
type Governance struct {
	Policies  []*policy.Policy
	Approvals []v1alpha1.RolloutApproval
	// Unstored are the names of the approvals whose state is not stored yet.
	Unstored map[string]bool
	// Stored is what the status of the first policy has of the set, as it was read last; nil for nothing.
	Stored *v1alpha1.SetStatus
	// Remembered is what was reported of the set, in this process or before it, to the first policy that remembers anything; nil for what Stored is.
	Remembered *v1alpha1.SetStatus
	// Unread reports whether the policies have not been read yet.
	Unread bool
}

func (g *Governance) remembered() *v1alpha1.SetStatus {
	if g.Remembered != nil {
		return g.Remembered
	}
	return g.Stored
}

// governed is what is remembered of the policy of a set from one pass to the next.
type governed struct {
	of   types.UID
	last *v1alpha1.SetStatus
	// lost reports whether no policy applied at the last decision, or none has been made since then: what happened until then was not observed.
	lost bool
	// at is when the last decision about it was made.
	at time.Time
	// watch contains the observations of nodes from that decision.
	watch *policy.Watch
	// memory is what that decision has passed on.
	memory *policy.Memory
	// places remembers where pods of the committed revision may run.
	places policyinput.Places
}

// Selected returns the sets that a policy applies to.
func (c *Controller) Selected(p *policy.Policy) []policy.Set {
	var sets []policy.Set
	for name := range c.dialects {
		for _, key := range c.Index.Keys(name) {
			if key.Namespace != p.Namespace {
				continue
			}
			if w := c.Index.Workload(key); w != nil && !w.Deleting && p.Selects(policyinput.SetOf(w)) {
				sets = append(sets, policyinput.SetOf(w))
			}
		}
	}
	return sets
}

// EnqueueNamespace asks for a pass for every set of a namespace; of all namespaces if it is empty.
func (c *Controller) EnqueueNamespace(namespace string) {
	for name := range c.dialects {
		for _, key := range c.Index.Keys(name) {
			if namespace == "" || key.Namespace == namespace {
				c.queue.Add(key)
			}
		}
	}
}

// adopt converts a set whose pods another controller manages into one that is updated by deletes, if a policy applies to it.
func (p *pass) adopt() {
	if p.w.ByPolicy == nil || p.c.Policies == nil {
		return
	}
	rules := p.c.Policies.Of(policyinput.SetOf(p.w))
	if len(rules.Policies) == 0 {
		return
	}
	p.w, p.byPolicy = policyinput.UpdatedByPolicy(p.w, rules.Policies[0]), true
}

// setByPolicy gives the decision the specification that adopt has made.
func (p *pass) setByPolicy(s *rollout.Snapshot) {
	if p.byPolicy {
		policyinput.Respecify(s, p.w)
	}
}

// governance determines which policies apply, before the Snapshot is taken.
func (p *pass) governance(h *clustercache.Resolved) {
	if p.c.Policies == nil {
		return
	}
	p.rules = p.c.Policies.Of(policyinput.SetOf(p.w))
	p.marked = policyinput.Committed(h)
	p.c.Index.Govern(p.key, p.governs())
	p.foreigners = p.foreign(h)
}

// abandoned reports whether the policy that updates the set next to another controller has gone since adopt: without one, that set is not updated. That a
// policy was deleted asks for the next pass.
func (p *pass) abandoned() bool { return p.byPolicy && len(p.rules.Policies) == 0 }

// governs reports whether a policy may restrict the update.
func (p *pass) governs() bool { return p.rules.Unread || p.marked || len(p.rules.Policies) > 0 }

// sinceGoverned is how long ago the last decision about the policy was made, by a clock that users cannot set; 0 if a pass after it has made none.
func (p *pass) sinceGoverned() time.Duration {
	if !p.governedAt.IsZero() {
		return p.c.Clock.Since(p.governedAt)
	}
	return 0
}

// unlooked has the time since the last decision about a policy count for nothing: the set was not looked at.
func (c *Controller) unlooked(key clustercache.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.states[key]; s != nil {
		s.governed.at = time.Time{}
	}
}

// govern puts into the Snapshot what the policies allow.
func (p *pass) govern(h *clustercache.Resolved, s *rollout.Snapshot, now time.Time, elapsed time.Duration) policy.Result {
	if !p.governs() {
		p.state.governed = governed{}
		p.c.ask(p.key, nil)
		return policy.Result{Commit: rollout.NoRevision, Wanted: rollout.NoRevision, Revert: rollout.NoRevision}
	}
	in := &policy.Input{
		Snapshot: s, Labels: p.c.Index.Labels(s.Nodes), Revisions: p.revisions(h), ClaimsMore: policyinput.ClaimsMore(h), Set: policyinput.SetOf(p.w), UID: p.w.UID, Generation: p.w.Generation,
		Policies: p.rules.Policies, Unread: p.rules.Unread, Approvals: p.rules.Approvals, Unstored: p.rules.Unstored, Neighbours: p.turn.neighbours,
		OpenYurt: p.stoodBack && p.w.Plain != nil && p.w.Set.Strategy != p.w.Plain.Strategy, Watch: p.state.governed.watch,
		Stored: p.rules.Stored, Answers: p.answers(), Measuring: policy.MeasuredHere, Template: p.template(),
		ScheduledAlike: policyinput.ScheduledAlike(h), Fits: p.state.governed.places.Fits(p.w, h, func() []clustercache.Node { return p.c.Index.NodesOf(s.Nodes) }),
	}
	p.turn.in = in
	g := &p.state.governed
	if len(p.rules.Policies) > 0 {
		if uid := p.rules.Policies[0].UID; g.of != uid {
			g.of, g.last, g.memory, in.Restored, elapsed, in.Watch = uid, p.rules.remembered(), nil, true, 0, nil
		} else if g.lost {
			g.memory, in.Restored, elapsed, in.Watch = nil, true, 0, nil
		}
		in.Last, in.Memory, in.Elapsed = g.last, g.memory, elapsed
		if p.governedAt.IsZero() {
			in.Memory = g.memory.Unobserved()
		}
	}
	out := policy.Decide(in)
	p.c.ask(p.key, out.Questions)
	g.at = now
	if out.Status != nil {
		g.last = out.Status
	}
	out.Enter(s, h.Changes(p.w, p.d.InPlace))
	g.watch, g.memory = out.Watch, out.Memory
	g.lost = len(p.rules.Policies) == 0 || out.Memory == nil
	switch len(p.rules.Policies) {
	case 0:
	case 1:
		p.rules.Policies[0].Tighten(s)
	default:
		g.of = "" // each policy keeps what it remembers, and the next decision begins with that
	}
	return out
}

// governed returns the effect of the policy on the set, as far as it changes the status of the set.
func (p *pass) governed(out *policy.Result) *dialect.Governed {
	switch st := out.Status; {
	case st != nil && st.Enforcement == v1alpha1.EnforcementNone:
		return nil
	case st != nil:
		g := &dialect.Governed{Phase: st.Phase, Settled: p.rules.Policies[0].Settled(st)}
		if len(st.Blocking) > 0 {
			g.Message = st.Blocking[0].Message
		}
		return g
	case p.governs() && !p.rules.Unread && len(p.rules.Policies) == 0:
		return &dialect.Governed{Phase: v1alpha1.PhaseStalled, Message: "The rollout policy was deleted in the middle of a rollout: create it again, or change the template back."}
	default:
		return nil
	}
}

// writeMarks is mark, and reports a mark that the API server refuses: no update starts before the committed revision has its own.
func (p *pass) writeMarks(ctx context.Context, h *clustercache.Resolved, out *policy.Result) error {
	err := p.mark(ctx, h, out)
	if err == nil || apply.OfDelete(err) != apply.Refused {
		return err
	}
	p.recordFailure(err, base.ReasonFailedRevision)
	if out.Status != nil && out.Commit >= 0 {
		out.Status.Blocking = append(out.Status.Blocking, v1alpha1.Blocking{
			Reason: "MarkRefused", Message: fmt.Sprintf("The API server refuses to mark the committed revision, and no update starts before that: %s.", apply.Brief(err)),
		})
	}
	return err
}

// mark writes which revision is committed, which one has failed, or that no policy governs the set any more.
func (p *pass) mark(ctx context.Context, h *clustercache.Resolved, out *policy.Result) error {
	if out.Commit >= 0 && out.Commit < len(h.Revisions) {
		r := &h.Revisions[out.Commit]
		value := everynode.FormatCommitted(out.CommitNumber, string(r.UID))
		if err := p.annotateRevision(ctx, r, everynode.Committed, value); err != nil || out.CommitNumber < math.MaxInt64 {
			return err
		}
		return p.unmark(ctx, h, func(i int) bool { return i != out.Commit && h.Revisions[i].Committed == out.CommitNumber })
	}
	if h.Current >= 0 && h.Current < len(h.Revisions) {
		r := &h.Revisions[h.Current]
		switch {
		case out.Fail != nil:
			return p.annotateRevision(ctx, r, everynode.Failed, everynode.FormatFailed(*out.Fail, string(r.UID)))
		case out.Retry && r.Failed != nil:
			return p.annotateRevision(ctx, r, everynode.Failed, nil)
		}
	}
	if out.Release {
		return p.unmark(ctx, h, func(i int) bool { return h.Revisions[i].Committed > 0 })
	}
	return nil
}

// unmark removes the mark of some revisions. If no number is higher than that of an earlier mark, the earlier one must go: its template may return, and goes
// through all waves then.
func (p *pass) unmark(ctx context.Context, h *clustercache.Resolved, which func(i int) bool) error {
	for i := range h.Revisions {
		if which(i) {
			if err := p.annotateRevision(ctx, &h.Revisions[i], everynode.Committed, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *pass) annotateRevision(ctx context.Context, r *clustercache.Revision, name string, value any) error {
	err := p.patchRevision(ctx, r, metadataPatch(r.UID, "annotations", map[string]any{name: value}))
	if errors.Is(err, errHistoryMoved) {
		return nil // it is written, and the next pass sees it
	}
	return err
}

// reportGoverned reports what has come of a pass, after its writes.
func (p *pass) reportGoverned(out *policy.Result, plan *rollout.Plan) {
	if p.reported = true; p.c.Policies == nil {
		return
	}
	if last := p.state.governed.last; out.Starts && last != nil && policy.Started(plan) {
		// The API server may have deleted the pod long after the decision, for example because of a webhook.
		last.LastStart = policy.Moment(timeOf(p.carriedOut))
		out.StartedAfter(p.carriedOutIn)
	}
	for _, e := range out.Events {
		kind := corev1.EventTypeNormal
		if e.Warning {
			kind = corev1.EventTypeWarning
		}
		p.c.Events.Event(p.object(), kind, e.Reason, e.Message)
	}
	p.c.Policies.Report(policyinput.SetOf(p.w), p.rules.Policies, out.Status, out.Judged)
	if p.c.Notices != nil && len(out.Notices) > 0 {
		for i := range out.Notices {
			out.Notices[i].UID, out.Notices[i].Dialect = p.w.UID, p.key.Dialect
		}
		p.c.Notices.Notify(out.Notices)
	}
}

// reportUnwritten lets the policy report that the revision of the template is refused: no decision can report anything of a revision without a name. While policies are in conflict, they
// report that.
func (p *pass) reportUnwritten(out *policy.Result, set *rollout.Set, err error) {
	if err = onlyRefused(err); err != nil && out.Status == nil && len(p.rules.Policies) == 1 {
		out.Status = policy.Unwritten(policyinput.SetOf(p.w), set, p.lastGoverned(), err.Error())
	}
}

// reportBlocked reports a set that Everynode does not manage because of another controller of its dialect,
// unless its policy already has a status of the set, from which the loop continues later.
func (c *Controller) reportBlocked(key clustercache.Key, w *dialect.Workload) {
	if c.Policies == nil {
		return
	}
	set := policyinput.SetOf(w)
	of := c.Policies.Of(set)
	if stays := !w.Deleting && groupOf(of.Policies) != ""; stays || w.Deleting {
		c.leaveGroup(set, stays)
	} else {
		c.quitGroup(key, set)
	}
	switch {
	case len(of.Policies) == 0:
	case of.remembered() == nil:
		c.Policies.Report(set, of.Policies, policy.Idle(set, nil, idleReason(w, true)), nil)
	default:
		c.Policies.Report(set, of.Policies, nil, nil)
	}
}

// reportNothing reports that a pass has ended before it came to a decision, so that the status of its policy does not wait for it.
func (p *pass) reportNothing() {
	if p.c.Policies != nil && !p.reported {
		set := policyinput.SetOf(p.w)
		p.c.Policies.Report(set, p.c.Policies.Of(set).Policies, nil, nil)
	}
}

// idleReason returns why nothing is decided about a set. blocked is whether another controller of its dialect is active.
func idleReason(w *dialect.Workload, blocked bool) v1alpha1.Blocking {
	if w.ForOpenYurt {
		return policy.LeftToOpenYurt()
	}
	wrong := slices.IndexFunc(w.Problems, func(p dialect.Problem) bool { return p.Fatal })
	switch {
	case blocked:
		return policy.NotServed("another controller of this kind of daemon set is active", "Stop it, so that the manager of Everynode takes over.")
	case wrong >= 0:
		return policy.NotServed("its specification is not valid", w.Problems[wrong].Message)
	default:
		return policy.NotServed("another controller keeps its pods", "To let the policy control updates, set spec.updateStrategy.type to OnDelete, and serve the dialect policy.")
	}
}

// forgetGoverned reports that a set is gone.
func (c *Controller) forgetGoverned(w *dialect.Workload) {
	if c.Policies != nil {
		c.leaveGroup(policyinput.SetOf(w), false)
		c.Policies.Report(policyinput.SetOf(w), nil, nil, nil)
	}
}

// reportIdle reports a set for which nothing is decided, so that its policy does not wait for it.
func (p *pass) reportIdle() {
	if p.c.Policies == nil {
		return
	}
	p.c.ask(p.key, nil)
	set := policyinput.SetOf(p.w)
	of := p.c.Policies.Of(set)
	if len(of.Policies) > 0 {
		p.c.Policies.Report(set, of.Policies, policy.Idle(set, of.remembered(), idleReason(p.w, false)), nil)
	}
}
