// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"fmt"
	"strings"
	"time"

	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/rollout"
)

// nextOf describes what happens next to a set, and when.
func nextOf(m *inspect.Evaluation, state inspect.State, left *int, now time.Time) string {
	o := outlook{state: state, verdicts: m.Plan.Verdicts, left: left}
	if p := m.Governance.Report(); p != nil && !(p.Suspended && state == inspect.Finished) {
		next := p.NextAction(now, m.Set.String())
		if going := o.going(); p.Suspended && going != "" {
			next = going + "; then " + next
		}
		if next != "" {
			return next
		}
	}
	return o.next()
}

// outlook is what the next action of a set depends on.
type outlook struct {
	state    inspect.State
	verdicts []rollout.Verdict
	// left is the time until the rollout is finished, nil if it is not known.
	left *int
}

// next describes the next action and when it happens. A rollout policy knows more, so this is for sets without a report of one.
func (o *outlook) next() string {
	text := o.action()
	if o.left != nil && o.state == inspect.Rolling {
		text += fmt.Sprintf("; about %s left", inspect.Age(time.Duration(*o.left)*time.Second))
	}
	return text
}

// going describes what has begun, which a suspension does not stop; empty if nothing has.
func (o *outlook) going() string {
	acting, working := 0, 0
	for _, v := range o.verdicts {
		switch v.Kind.Group() {
		case rollout.GroupActing:
			acting++
		case rollout.GroupStarting, rollout.GroupStopping:
			working++
		default:
		}
	}
	switch {
	case acting > 0:
		return areChanged(acting)
	case working > 0:
		return becomeAvailable(working)
	}
	return ""
}

func areChanged(count int) string { return nodes(count, "is", "are") + " changed now" }

func becomeAvailable(count int) string { return nodes(count, "becomes", "become") + " available" }

func (o *outlook) action() string {
	acting, working, queued, held := 0, 0, 0, map[rollout.VerdictKind]int{}
	var most rollout.VerdictKind // of those that are held
	for _, v := range o.verdicts {
		switch group := v.Kind.Group(); {
		case group == rollout.GroupActing:
			acting++
		case group == rollout.GroupStarting, group == rollout.GroupStopping:
			working++
		case v.Kind.Cause() == rollout.CauseTurn:
			queued++
		case group == rollout.GroupQueued, group == rollout.GroupHeld:
			held[v.Kind]++
			if n := held[most]; held[v.Kind] > n || held[v.Kind] == n && v.Kind < most {
				most = v.Kind
			}
		}
	}
	switch {
	case acting > 0:
		return areChanged(acting)
	case queued > 0 && working > 0:
		return fmt.Sprintf("the next of %s when one of the %d in progress is available", nodes(queued, "follows", "follows"), working)
	case queued > 0:
		return fmt.Sprintf("the next of %s when fewer nodes are without an available pod", nodes(queued, "follows", "follows"))
	case working > 0:
		return becomeAvailable(working)
	case len(held) > 0:
		reason := most.Sentence()
		return fmt.Sprintf("nothing by itself, for %s: %s", nodes(held[most], "", ""), strings.TrimPrefix(reason, "the pod is old; "))
	case o.state == inspect.Finished:
		return "nothing: the rollout is finished"
	}
	return ""
}

// nodes is a number of nodes with a verb.
func nodes(count int, one, more string) string {
	if count == 1 {
		return strings.TrimSpace("1 node " + one)
	}
	return strings.TrimSpace(fmt.Sprintf("%d nodes %s", count, more))
}
