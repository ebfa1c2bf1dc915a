// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// DeadlineExceeded is the message of a want whose deadline has passed.
const DeadlineExceeded = "pulling exceeds the activeDeadlineSeconds"

// Decide is total and deterministic: the order of wants, runs and states does not matter, if their keys and numbers are
// unique.
func Decide(s Snapshot) Plan {
	q := newQueue(&s)
	q.settle()
	q.findPresent()
	q.giveUp()
	q.watchRuns()
	q.begin()
	return q.plan()
}

// entry is a want with its state.
type entry struct {
	want  Want
	state State
}

// queue is a decision in progress.
type queue struct {
	now     time.Time
	limits  Limits
	facts   Facts
	runs    []Run   // sorted by number
	entries []entry // sorted by key
	lastRun int64
	actions []Action
	busy    map[string]bool // references with a run in progress
	free    int             // number of runs that may be started
}

func newQueue(s *Snapshot) *queue {
	q := &queue{now: s.Now, limits: s.Limits, facts: s.Facts, lastRun: s.Memory.LastRun, busy: map[string]bool{}}
	q.runs = slices.Clone(s.Facts.Runs)
	slices.SortStableFunc(q.runs, func(a, b Run) int { return cmp.Compare(a.Number, b.Number) })
	for i := range q.runs {
		q.lastRun = max(q.lastRun, q.runs[i].Number)
	}
	known := make(map[Key]State, len(s.Memory.States))
	for _, state := range s.Memory.States {
		known[state.Key] = state
	}
	for _, w := range s.Wants {
		state, ok := known[w.Key]
		if !ok {
			state = State{Key: w.Key, Started: s.Now}
		}
		q.entries = append(q.entries, entry{want: w, state: q.resume(state, &w)})
	}
	slices.SortStableFunc(q.entries, func(a, b entry) int { return a.want.Key.Compare(b.want.Key) })
	q.entries = slices.CompactFunc(q.entries, func(a, b entry) bool { return a.want.Key == b.want.Key })
	return q
}

// resume adapts a remembered state to the facts: if its run is not among them, it does not exist, and unknown tries are
// read from the message.
func (q *queue) resume(s State, w *Want) State {
	if !slices.ContainsFunc(q.runs, func(r Run) bool { return r.Number == s.Run }) {
		s.Run = 0
	}
	if s.Started.IsZero() {
		s.Started = q.now
	}
	if s.Phase > Broken {
		s.Phase = Waiting
	}
	if !s.Final() && s.Tries == 0 {
		s.Tries, s.Failure = triesOf(s.Message)
		s.Tries = min(s.Tries, w.retries()) // it has not failed, so at least one try is left
	}
	return s
}

// settle handles the results of runs.
func (q *queue) settle() {
	for i := range q.runs {
		r := &q.runs[i]
		if r.Result == Running {
			continue
		}
		for j := range q.entries {
			e := &q.entries[j]
			switch {
			case e.state.Final():
			case r.Result == Done && serves(r, e):
				q.succeed(e, r.Text)
			case e.state.Run == r.Number:
				q.settleBad(e, r)
			}
		}
	}
}

// settleBad handles a failed run for the want to which it belongs.
func (q *queue) settleBad(e *entry, r *Run) {
	e.state.Run = 0
	switch {
	case r.Cancelled == TimedOut:
		q.charge(e, fmt.Sprintf("pulling took longer than the timeout of %v", r.Until.Sub(r.Began)))
	case r.Result == Lost && e.state.Losses < FreeLosses:
		e.state.Losses++
		e.say("the container runtime went away while it pulled: " + r.Text)
		e.state.NotBefore = q.now.Add(Pause(e.state.Losses))
	default:
		q.charge(e, r.Text)
	}
}

// serves reports whether the image of a run satisfies a want. With the policy Always, a run of an older want does not,
// because the registry may have a newer image since then.
func serves(r *Run, e *entry) bool {
	return r.Ref == e.want.Ref && (!e.want.Always || e.state.Run == r.Number || !r.Began.Before(e.state.Started))
}

func (q *queue) succeed(e *entry, id string) {
	s := &e.state
	s.Phase, s.Progress, s.Completed, s.ImageID = Succeeded, 100, q.now, id
	s.Message, s.Failure, s.Run, s.NotBefore = "", "", 0, time.Time{}
}

func (q *queue) fail(e *entry, why string) {
	s := &e.state
	s.Phase, s.Completed, s.Message = Broken, q.now, why
	s.Failure, s.Run, s.NotBefore = "", 0, time.Time{}
}

// charge uses up one try, and fails the want after the last one.
func (q *queue) charge(e *entry, why string) {
	s := &e.state
	s.Tries++
	s.Losses, s.Progress = 0, 0
	if s.Tries > e.want.retries() {
		q.fail(e, why)
		return
	}
	s.Failure, s.NotBefore = why, q.now.Add(Pause(s.Tries))
	e.say("")
}

// Pause returns the time between two tries, by the number of tries: 1 s, 2 s, 4 s and so on, up to 30 s.
func Pause(tries int) time.Duration {
	pause := FirstPause
	for range tries - 1 {
		if pause *= 2; pause >= LongestPause {
			return LongestPause
		}
	}
	return pause
}

// findPresent completes wants for which an image on the node is sufficient.
func (q *queue) findPresent() {
	for i := range q.entries {
		e := &q.entries[i]
		if image, ok := q.facts.Present[e.want.Ref]; ok && !e.state.Final() && !e.want.Always && e.want.Invalid == "" {
			q.succeed(e, image.ID)
		}
	}
}

// giveUp fails wants that can no longer succeed.
func (q *queue) giveUp() {
	for i := range q.entries {
		e := &q.entries[i]
		end, limited := e.want.ends(&e.state)
		switch {
		case e.state.Final():
		case e.want.Invalid != "":
			q.fail(e, e.want.Invalid)
		case limited && !q.now.Before(end):
			q.fail(e, DeadlineExceeded)
		}
	}
}

// watchRuns cancels runs that serve no want or exceed their timeout, and records the progress of the others.
func (q *queue) watchRuns() {
	going := 0
	for i := range q.runs {
		r := &q.runs[i]
		if r.Result != Running {
			continue
		}
		going++
		q.busy[r.Ref] = true
		if r.Cancelled != NotCancelled {
			continue
		}
		wanted := q.note(r)
		if late := !q.now.Before(r.Until); late || !wanted {
			cause := Unwanted
			if wanted {
				cause = TimedOut
			}
			r.Cancelled = cause
			q.actions = append(q.actions, Action{Kind: Cancel, Run: r.Number, Key: r.Key, Ref: r.Ref, Cause: cause})
		}
	}
	q.free = len(q.entries)
	if q.limits.Pulls > 0 {
		q.free = q.limits.Pulls - going
	}
}

// note updates every want that a run serves, and reports whether there is one.
func (q *queue) note(r *Run) bool {
	wanted := false
	for i := range q.entries {
		e := &q.entries[i]
		if e.state.Final() || !serves(r, e) {
			continue
		}
		wanted = true
		if e.state.Phase == Waiting {
			e.state.Started = q.now
		}
		e.state.Phase, e.state.Progress = Pulling, min(max(r.Progress, 0), 99)
		e.say("")
	}
	return wanted
}
