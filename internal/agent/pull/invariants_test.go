// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// assertGood checks everything that is said of one decision.
func assertGood(t testing.TB, s Snapshot, p Plan) {
	t.Helper()
	if bad := violations(s, p); len(bad) > 0 {
		t.Fatalf("%s\n%+v\n%s", strings.Join(bad, "\n"), s, describe(p))
	}
}

// judge looks at one decision; each of its rules is a method that says what is wrong.
type judge struct {
	s      Snapshot
	p      Plan
	wants  map[Key]Want
	before map[Key]State
	after  map[Key]State
	found  []string
}

func (j *judge) sayf(rule, format string, args ...any) {
	j.found = append(j.found, rule+": "+fmt.Sprintf(format, args...))
}

// violations are the rules that a decision breaks.
func violations(s Snapshot, p Plan) []string {
	j := &judge{s: s, p: p, wants: map[Key]Want{}, before: map[Key]State{}, after: map[Key]State{}}
	for _, w := range s.Wants {
		if _, ok := j.wants[w.Key]; !ok {
			j.wants[w.Key] = w
		}
	}
	for _, state := range s.Memory.States {
		j.before[state.Key] = state
	}
	for _, state := range p.Memory.States {
		j.after[state.Key] = state
	}
	j.oneStateForEachWant()
	j.finalStays()
	j.limits()
	j.starts()
	j.cancels()
	j.noneIsForgotten()
	j.wake()
	j.deadlines()
	return j.found
}

func (j *judge) oneStateForEachWant() {
	const rule = "one state for each want"
	if len(j.p.Memory.States) != len(j.wants) {
		j.sayf(rule, "%d states for %d wants", len(j.p.Memory.States), len(j.wants))
	}
	if !slices.IsSortedFunc(j.p.Memory.States, func(a, b State) int { return a.Key.Compare(b.Key) }) {
		j.sayf(rule, "the states are not sorted")
	}
	for key := range j.after {
		if _, ok := j.wants[key]; !ok {
			j.sayf(rule, "%v is not wanted", key)
		}
	}
}

func (j *judge) finalStays() {
	for key, was := range j.before {
		is, wanted := j.after[key]
		if wanted && was.Final() && (is.Phase != was.Phase || is.Completed != was.Completed || is.Message != was.Message) {
			j.sayf("what is final stays", "%v was %v and is %v", key, was, is)
		}
	}
}

func (j *judge) starting() []Action {
	return slices.DeleteFunc(slices.Clone(j.p.Actions), func(a Action) bool { return a.Kind != Start })
}

func (j *judge) running() []Run {
	return slices.DeleteFunc(slices.Clone(j.s.Facts.Runs), func(r Run) bool { return r.Result != Running })
}

func (j *judge) limits() {
	refs := map[string]int{}
	for _, r := range j.running() {
		refs[r.Ref]++
	}
	for _, a := range j.starting() {
		refs[a.Ref]++
		if refs[a.Ref] > 1 {
			j.sayf("one run for each reference", "%s has %d", a.Ref, refs[a.Ref])
		}
	}
	if n := len(j.running()) + len(j.starting()); j.s.Limits.Pulls > 0 && len(j.starting()) > 0 && n > j.s.Limits.Pulls {
		j.sayf("no more runs than allowed", "%d of %d", n, j.s.Limits.Pulls)
	}
}

// starts checks that everything that is begun may be begun.
func (j *judge) starts() {
	const rule = "only what may begin begins"
	numbers := map[int64]bool{}
	for _, r := range j.s.Facts.Runs {
		numbers[r.Number] = true
	}
	for _, a := range j.starting() {
		w, wanted := j.wants[a.Key]
		was, is := j.before[a.Key], j.after[a.Key]
		_, present := j.s.Facts.Present[a.Ref]
		fill := j.s.Facts.Fill
		switch {
		case !wanted || w.Ref != a.Ref || w.Invalid != "":
			j.sayf(rule, "%v is not wanted", a)
		case was.Final():
			j.sayf(rule, "%v has ended before", a)
		case present && !w.Always:
			j.sayf(rule, "%v is there", a)
		case j.s.Facts.Down != "":
			j.sayf(rule, "the runtime is down: %v", a)
		case j.s.Now.Before(was.NotBefore):
			j.sayf(rule, "%v comes too early", a)
		case j.s.Limits.FillPercent > 0 && fill.Known && fill.Percent >= j.s.Limits.FillPercent:
			j.sayf(rule, "the disk is full: %v", a)
		case numbers[a.Run] || a.Run == 0 || a.Run > j.p.Memory.LastRun || a.Run <= j.s.Memory.LastRun:
			j.sayf(rule, "the number is not new: %v", a)
		case is.Run != a.Run || is.Phase != Pulling:
			j.sayf(rule, "the state does not tell of %v", a)
		case a.Until != j.s.Now.Add(w.timeout()):
			j.sayf(rule, "the time-out is not that of the want: %v", a)
		}
		numbers[a.Run] = true
	}
}

// useful is whether a want that is not final after the decision profits from the run.
func (j *judge) useful(r Run) bool {
	for key, w := range j.wants {
		if is := j.after[key]; !is.Final() && w.Ref == r.Ref && (!w.Always || is.Run == r.Number || !r.Began.Before(is.Started)) {
			return true
		}
	}
	return false
}

func (j *judge) cancels() {
	const rule = "runs end when they should, and only then"
	for _, r := range j.s.Facts.Runs {
		due := NotCancelled
		switch {
		case r.Result != Running || r.Cancelled != NotCancelled:
		case !j.useful(r):
			due = Unwanted
		case !j.s.Now.Before(r.Until):
			due = TimedOut
		}
		n := 0
		for _, a := range j.p.Actions {
			if a.Kind == Cancel && a.Run == r.Number {
				n++
				if a.Cause != due {
					j.sayf(rule, "%v is cancelled as %s", r, a.Cause)
				}
			}
		}
		if want := map[bool]int{true: 1}[due != NotCancelled]; n != want {
			j.sayf(rule, "%v is cancelled %d times", r, n)
		}
	}
}

// noneIsForgotten: a want that has not ended has a run, or a reason to wait.
func (j *judge) noneIsForgotten() {
	busy := map[string]bool{}
	for _, r := range j.running() {
		busy[r.Ref] = true
	}
	for _, a := range j.starting() {
		busy[a.Ref] = true
	}
	slots := j.s.Limits.Pulls <= 0 || len(j.running())+len(j.starting()) < j.s.Limits.Pulls
	for key, w := range j.wants {
		if is := j.after[key]; !is.Final() && !busy[w.Ref] && slots && j.s.Facts.Down == "" && !j.s.Now.Before(is.NotBefore) {
			j.sayf("none is forgotten", "%v waits for nothing: %v", key, is)
		}
	}
}

func (j *judge) wake() {
	const rule = "it wakes in time"
	if !j.p.Wake.IsZero() && !j.p.Wake.After(j.s.Now) {
		j.sayf(rule, "%v is not later than now", j.p.Wake)
	}
	check := func(at time.Time, why string) {
		if at.After(j.s.Now) && (j.p.Wake.IsZero() || j.p.Wake.After(at)) {
			j.sayf(rule, "%v is later than %s at %v", j.p.Wake, why, at)
		}
	}
	for key, is := range j.after {
		if w := j.wants[key]; !is.Final() {
			if is.Run == 0 {
				check(is.NotBefore, "the next try")
			}
			if w.Deadline > 0 {
				check(deadlineOf(w, is), "the deadline")
			}
		}
	}
	for _, a := range j.starting() {
		check(a.Until, "the time-out")
	}
}

func deadlineOf(w Want, is State) time.Time {
	if w.Asked.IsZero() {
		return is.Started.Add(w.Deadline)
	}
	return w.Asked.Add(w.Deadline)
}

func (j *judge) deadlines() {
	for key, w := range j.wants {
		is := j.after[key]
		if is.Tries > w.retries()+1 {
			j.sayf("no more tries than allowed", "%v", is)
		}
		if w.Deadline > 0 && !is.Final() && !j.s.Now.Before(deadlineOf(w, is)) {
			j.sayf("deadlines are kept", "%v", is)
		}
		if was := j.before[key]; was.Phase == Waiting && is.Phase == Pulling && !is.Started.Equal(j.s.Now) {
			j.sayf("a pull starts when it starts", "%v", is)
		}
		if final := is.Final(); final != !is.Completed.IsZero() || final && is.Run != 0 {
			j.sayf("what is final is complete", "%v", is)
		}
	}
}

// mutant is a way in which Decide could be wrong, in a world where that shows.
type mutant struct {
	name   string
	world  []string
	do     func(s *Snapshot, p *Plan)
	caught string
}

func mutants() []mutant {
	fresh := []string{"want a:1#1"}
	drop := func(_ *Snapshot, p *Plan) { p.Actions = nil }
	begin := func(_ *Snapshot, p *Plan) {
		p.Memory.LastRun++
		p.Memory.States[0].Run, p.Memory.States[0].Phase = p.Memory.LastRun, Pulling
		p.Actions = append(p.Actions, Action{
			Kind: Start, Run: p.Memory.LastRun, Key: Key{Image: "a", Tag: "1", Version: 1}, Ref: "a:1", Until: instant(DefaultTimeout),
		})
	}
	return []mutant{
		{"forgets a start", fresh, drop, "none is forgotten"},
		{"starts twice", fresh, begin, "one run for each reference"},
		{"pulls what is there", []string{"present a:1 x", "want a:1#1"}, begin, "only what may begin begins"},
		{"pulls onto a full disk", []string{"full 90%", "want a:1#1"}, begin, "only what may begin begins"},
		{"pulls while the runtime is down", []string{"down no socket", "want a:1#1"}, begin, "only what may begin begins"},
		{"uses a number again", fresh, func(_ *Snapshot, p *Plan) { p.Actions[0].Run = 0 }, "only what may begin begins"},
		{"forgets the time-out", fresh, func(_ *Snapshot, p *Plan) { p.Actions[0].Until = time.Time{} }, "only what may begin begins"},
		{"passes the limit", []string{"limits pulls=1 fill=0%", "want a:1#1", "want b:1#1"}, func(_ *Snapshot, p *Plan) {
			p.Memory.LastRun++
			p.Actions = append(p.Actions, Action{Kind: Start, Run: 2, Key: Key{Image: "b", Tag: "1", Version: 1}, Ref: "b:1", Until: instant(DefaultTimeout)})
		}, "no more runs than allowed"},
		{"loses a state", fresh, func(_ *Snapshot, p *Plan) { p.Memory.States = nil }, "one state for each want"},
		{"invents a state", nil, func(_ *Snapshot, p *Plan) { p.Memory.States = []State{{Key: Key{Image: "z", Tag: "1", Version: 1}}} }, "one state for each want"},
		{"pulls again what succeeded", []string{"present a:1 x", "want a:1#1", "decide", "at 1s"}, func(_ *Snapshot, p *Plan) {
			p.Memory.States[0].Phase = Waiting
		}, "what is final stays"},
		{"leaves a run that nobody wants", []string{"want a:1#1", "decide", "unwant a:1#1"}, drop, "runs end when they should"},
		{"leaves a run that takes too long", []string{"want a:1#1 timeout=5s", "decide", "at 5s"}, drop, "runs end when they should"},
		{"cancels a good run", []string{"want a:1#1", "decide"}, func(_ *Snapshot, p *Plan) {
			p.Actions = append(p.Actions, Action{Kind: Cancel, Run: 1, Cause: Unwanted})
		}, "runs end when they should"},
		{"sleeps too long", fresh, func(_ *Snapshot, p *Plan) { p.Wake = time.Time{} }, "it wakes in time"},
		{"wakes at once for ever", fresh, func(s *Snapshot, p *Plan) { p.Wake = s.Now }, "it wakes in time"},
		{"passes a deadline", []string{"want a:1#1 deadline=5s", "decide", "at 5s"}, func(_ *Snapshot, p *Plan) {
			p.Memory.States[0].Phase, p.Memory.States[0].Completed = Pulling, time.Time{}
		}, "deadlines are kept"},
		{"tries for ever", fresh, func(_ *Snapshot, p *Plan) { p.Memory.States[0].Tries = 5 }, "no more tries than allowed"},
		{"counts the time before the pull", []string{"at 5s", "want a:1#1"}, func(_ *Snapshot, p *Plan) {
			p.Memory.States[0].Started = instant(0)
		}, "a pull starts when it starts"},
		{"ends without a time", []string{"present a:1 x", "want a:1#1"}, func(_ *Snapshot, p *Plan) {
			p.Memory.States[0].Completed = time.Time{}
		}, "what is final is complete"},
	}
}

func TestInvariantsCanFail(t *testing.T) {
	for _, m := range mutants() {
		t.Run(m.name, func(t *testing.T) {
			play := newPlayer()
			for _, line := range m.world {
				if line == "decide" {
					play.follow(Decide(play.snapshot()))
					continue
				}
				if err := play.do(line); err != nil {
					t.Fatal(err)
				}
			}
			s := play.snapshot()
			p := Decide(s)
			assertGood(t, s, p)
			m.do(&s, &p)
			bad := violations(s, p)
			if !slices.ContainsFunc(bad, func(v string) bool { return strings.HasPrefix(v, m.caught) }) {
				t.Errorf("nobody said %q: %q", m.caught, bad)
			}
		})
	}
}

func same(a, b Plan) bool { return reflect.DeepEqual(a, b) }
