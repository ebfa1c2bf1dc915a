// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// Next describes what happens next to the set, and when. left is the remaining time in seconds, nil if it is not known.
func (m *Evaluation) Next(state State, left *int, now time.Time) string {
	o := m.outlook(state, left)
	p := m.Governance.Report()
	if m.Abandoned() && state != Finished {
		c := o.count()
		return strings.Join(append(c.before("nothing starts before a user acts: "+m.Stopped()), o.others(c)...), "; ")
	}
	if p == nil || p.Suspended && state == Finished {
		return o.next()
	}
	next := p.NextAction(now, o.set)
	if next == "" {
		next = stalled(p, o.set)
	}
	stopped := p.Phase == v1alpha1.PhaseStalled || p.Suspended || p.Phase == v1alpha1.PhaseFailed || p.Phase == v1alpha1.PhaseRejected
	o.released = !stopped && p.Phase == v1alpha1.PhaseRolling
	o.undo = o.undo && (p.Suspended || !stopped && p.Phase != v1alpha1.PhaseUndoing)
	o.judged = o.released && m.Governance.Policies[0].Rules.Failure != nil
	if o.released {
		o.then = p.afterWave()
	}
	if note := p.included(); note != "" {
		o.note = " (" + note + ")"
	}
	if next == "" {
		return o.next()
	}
	c, parts := o.count(), []string{next}
	if stopped {
		parts = c.before(next)
	}
	return strings.Join(append(parts, o.others(c)...), "; ")
}

func (m *Evaluation) outlook(state State, left *int) *outlook {
	return &outlook{
		state: state, set: m.Set.String(), nodes: m.Snapshot.Nodes, target: m.Snapshot.Set.Update, verdicts: m.Plan.Verdicts, left: left, paused: m.Snapshot.Set.Paused, cause: m.Cause,
		undo: m.History != nil && len(m.History.Revisions) > 1,
	}
}

// WaitForUsers returns how many nodes wait for a preDelete hook, and how many have a pod that does not start.
func (m *Evaluation) WaitForUsers() (hooked, stuck int) {
	c := m.outlook(Rolling, nil).count()
	return c.hooked, c.stuck
}

// stalled describes who must do what about a rollout that its policy does not continue; empty if it does.
func stalled(p *PolicyReport, set string) string {
	switch {
	case p.Phase != v1alpha1.PhaseStalled || p.Enforcement == v1alpha1.EnforcementNone || len(p.Blocking) == 0:
		return ""
	case p.Blocking[0].Reason == policy.NodesGone:
		return fmt.Sprintf("nothing starts before the nodes of the wave are back, or a user continues without them, with kubectl everynode promote %s, or returns to the previous revision, with kubectl everynode undo %s", set, set)
	default:
		return "nothing starts before a user corrects what the policy reports: " + strings.TrimSuffix(p.Blocking[0].Message, ".")
	}
}

// before is what has begun, and what follows.
func (c *tally) before(next string) []string {
	if going := c.going(); going != "" {
		next = going + "; then " + next
	}
	return []string{next}
}

// outlook is what the next action of a set depends on.
type outlook struct {
	state State
	// set is the set as a user names it.
	set string
	// nodes have the verdicts; target is the revision that they are updated to.
	nodes    []rollout.Node
	target   int
	verdicts []rollout.Verdict
	// left is the time until the rollout is finished, nil if it is not known.
	left *int
	// then is what follows when the active wave is complete, and note what the remaining time includes; empty if there is nothing to say.
	then, note string
	// undo reports whether a user can return to another revision, released whether a policy continues to release nodes, and judged whether it decides that a revision has failed.
	undo, released, judged bool
	// paused reports whether the set is paused.
	paused bool
	// cause is why nodes have a verdict, where that is not only its sentence; nil if it never is.
	cause func(rollout.VerdictKind) string
}

// tally has the nodes of an outlook, by what they wait for.
type tally struct {
	// acting are changed now, working become available without a user, queued wait for their turn.
	acting, working, queued int
	// stuck have a pod that does not start, for the reasons in causes; hooked wait for a hook, and away are not ready.
	stuck, hooked, away int
	causes              []string
	held                map[rollout.VerdictKind]int
	most                rollout.VerdictKind // of those that are held
}

func (o *outlook) count() *tally {
	c := &tally{held: map[rollout.VerdictKind]int{}}
	for i, v := range o.verdicts {
		n, group := &o.nodes[i], v.Kind.Group()
		inProgress := group == rollout.GroupStarting || group == rollout.GroupStopping
		switch {
		case group == rollout.GroupActing:
			c.acting++
		case group == rollout.GroupHeld && v.Kind.Cause() == rollout.CauseProgress, inProgress && !n.Ready:
			if !n.Gone {
				c.away++
			}
		case v.Kind.Cause() == rollout.CauseHook:
			c.hooked++
		case inProgress:
			if trouble := StuckBy(n, v.Kind, o.target); trouble != "" {
				c.stuck++
				c.causes = append(c.causes, trouble)
			} else {
				c.working++
			}
		case v.Kind.Cause() == rollout.CauseTurn:
			c.queued++
		case group == rollout.GroupQueued, group == rollout.GroupHeld:
			c.held[v.Kind]++
			if most := c.held[c.most]; c.held[v.Kind] > most || c.held[v.Kind] == most && v.Kind < c.most {
				c.most = v.Kind
			}
		}
	}
	slices.Sort(c.causes)
	c.causes = slices.Compact(c.causes)
	return c
}

// next describes the next action and when it happens. A rollout policy knows more, so this is for sets without a report of one.
func (o *outlook) next() string {
	c := o.count()
	text := o.action(c)
	if o.then != "" && (c.acting > 0 || c.working > 0 || c.queued > 0) {
		text += "; then " + o.then
	}
	if o.left != nil && o.state == Rolling && text != "" {
		text += fmt.Sprintf("; about %s left", Age(time.Duration(*o.left)*time.Second)) + o.note
	}
	parts := o.others(c)
	if text != "" {
		parts = append([]string{text}, parts...)
	}
	return strings.Join(parts, "; ")
}

// going describes what has begun, which a suspension does not stop; empty if nothing has.
func (c *tally) going() string {
	switch {
	case c.acting > 0:
		return areChanged(c.acting)
	case c.working > 0:
		return becomeAvailable(c.working)
	}
	return ""
}

func areChanged(count int) string { return nodes(count, "is", "are") + " changed now" }

func becomeAvailable(count int) string { return nodes(count, "becomes", "become") + " available" }

func (o *outlook) action(c *tally) string {
	switch {
	case c.acting > 0:
		return areChanged(c.acting)
	case c.queued > 0 && c.working > 0:
		return fmt.Sprintf("the next of %s when one of the %d in progress is available", nodes(c.queued, "follows", "follows"), c.working)
	case c.queued > 0:
		return fmt.Sprintf("the next of %s when fewer nodes are without an available pod", nodes(c.queued, "follows", "follows"))
	case c.working > 0 && len(c.held) > 0 && !c.most.Continues() && !o.released:
		return becomeAvailable(c.working) + "; then " + o.nothing(c)
	case c.working > 0:
		return becomeAvailable(c.working)
	case c.heldByGroup() > 0 && o.released:
		return "the next of " + nodes(c.heldByGroup(), "follows", "follows") + " when no other daemon set of the concurrency group is updated there"
	case len(c.held) > 0 && o.released && c.most.OfPolicy():
		return "the next of " + nodes(c.held[c.most], "follows", "follows") + " when the rollout policy releases it"
	case len(c.held) > 0 && c.most.Continues():
		return nodes(c.held[c.most], "continues", "continue") + " without a user: " + c.most.Sentence()
	case len(c.held) > 0:
		return o.nothing(c)
	case o.state == Finished:
		return "nothing: the rollout is finished"
	case o.state == Failed:
		return "nothing before a user corrects the set"
	}
	return ""
}

// nothing describes that most nodes wait for a user.
func (o *outlook) nothing(c *tally) string {
	why := c.most.Sentence()
	if o.cause != nil {
		why = cmp.Or(o.cause(c.most), why)
	}
	text := fmt.Sprintf("nothing by itself, for %s: %s", NodeCount(c.held[c.most]), strings.TrimPrefix(why, "the pod is old; "))
	if byPartition(c.most) {
		text += ", until a user removes the partition, with kubectl everynode partition " + o.set + " 0"
	}
	if o.paused && c.most.Cause() == rollout.CauseSpec {
		text += ", until a user resumes it, with kubectl everynode resume " + o.set
	}
	return text
}

// others describes what the nodes need that do not continue while the rollout does: who must do what, and which of them continue when they are ready.
func (o *outlook) others(c *tally) (parts []string) {
	if c.stuck > 0 {
		text := fmt.Sprintf("%s (%s): a user must correct the cause", nodes(c.stuck, "does not start", "do not start"), strings.Join(c.causes, ", "))
		if o.undo {
			text += " or return to the previous revision, with kubectl everynode undo " + o.set
		}
		if o.judged {
			text += ", unless the rollout policy decides first that the revision has failed"
		}
		parts = append(parts, text)
	}
	if c.hooked > 0 {
		parts = append(parts, nodes(c.hooked, "continues", "continue")+" when the owner of the preDelete hook releases the pods, or a user does, with kubectl everynode release --all "+o.set)
	}
	if c.away > 0 {
		parts = append(parts, nodes(c.away, "that is not ready continues when it is", "that are not ready continue when they are")+" ready again")
	}
	return parts
}

// NodeCount is a number of nodes in words.
func NodeCount(count int) string { return nodes(count, "", "") }

// nodes is a number of nodes with a verb.
func nodes(count int, one, more string) string {
	if count == 1 {
		return strings.TrimSpace("1 node " + one)
	}
	return strings.TrimSpace(fmt.Sprintf("%d nodes %s", count, more))
}
