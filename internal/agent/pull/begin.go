// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"fmt"
	"slices"
	"time"
)

// begin starts runs for idle wants, those that have waited longest first.
func (q *queue) begin() {
	for _, e := range q.idle() {
		switch {
		case q.facts.Down != "":
			e.say("the container runtime does not answer: " + q.facts.Down)
		case q.busy[e.want.Ref]:
			// It is retried after its back-off. If a run in progress serves it, it need not wait that long.
		case q.now.Before(e.state.NotBefore):
			// The message has the error of the last attempt.
		case q.free <= 0:
			e.state.Phase = Waiting
			e.say(fmt.Sprintf("waits for a free pull slot of this node (limit %d)", q.limits.Pulls))
		case q.full():
			q.charge(e, fmt.Sprintf("the image file system of the node is %d%% full, and nothing is pulled from %d%% on: "+
				"free space on the node, or raise the limit of its agent", q.facts.Fill.Percent, q.limits.FillPercent))
		default:
			q.start(e)
		}
	}
}

// idle returns the wants that need a run and have none, in the order of their requests.
func (q *queue) idle() []*entry {
	idle := []*entry{}
	for i := range q.entries {
		if e := &q.entries[i]; !e.state.Final() && e.state.Run == 0 {
			idle = append(idle, e)
		}
	}
	slices.SortStableFunc(idle, func(a, b *entry) int { return a.state.Started.Compare(b.state.Started) })
	return idle
}

func (q *queue) full() bool {
	return q.limits.FillPercent > 0 && q.facts.Fill.Known && q.facts.Fill.Percent >= q.limits.FillPercent
}

func (q *queue) start(e *entry) {
	q.lastRun++
	q.free--
	q.busy[e.want.Ref] = true
	e.state.Run = q.lastRun
	r := Run{Number: q.lastRun, Key: e.want.Key, Ref: e.want.Ref, Began: q.now, Until: q.now.Add(e.want.timeout())}
	q.runs = append(q.runs, r)
	q.note(&r)
	q.actions = append(q.actions, Action{Kind: Start, Run: r.Number, Key: r.Key, Ref: r.Ref, Until: r.Until})
}

func (q *queue) plan() Plan {
	p := Plan{Actions: q.actions, Memory: Memory{LastRun: q.lastRun}}
	wake := func(at time.Time) {
		if at.After(q.now) && (p.Wake.IsZero() || at.Before(p.Wake)) {
			p.Wake = at
		}
	}
	for i := range q.entries {
		e := &q.entries[i]
		p.Memory.States = append(p.Memory.States, e.state)
		if e.state.Final() {
			continue
		}
		if end, limited := e.want.ends(&e.state); limited {
			wake(end)
		}
		if e.state.Run == 0 {
			wake(e.state.NotBefore)
		}
	}
	for i := range q.runs {
		if r := &q.runs[i]; r.Result == Running && r.Cancelled == NotCancelled {
			wake(r.Until)
		}
	}
	return p
}
