// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"time"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/cli/view"
	"everynode.dev/everynode/internal/plan"
)

// Estimate is the range in which the duration of the rollout is expected.
type Estimate struct {
	// Low is the duration if pods take as long as usual, High if all of them take as long as the slowest tenth.
	Low  string `json:"low"`
	High string `json:"high"`
	// EndLow and EndHigh are the same until the last wave of the rollout policy has ended; they are omitted unless its soak goes on after all nodes are updated.
	EndLow  string `json:"endLow,omitempty"`
	EndHigh string `json:"endHigh,omitempty"`
	// Source is where the times come from that the estimate depends on, Pods the number of pods that were measured in rollouts; it is omitted if there
	// were none, or if some times are assumed.
	Source string `json:"source"`
	Pods   int    `json:"pods,omitempty"`
}

// The sources of an estimate without pods that were measured.
const (
	notMeasured   = "assumed: no rollout has been measured yet"
	neverMeasured = "assumed: another controller keeps the pods, and its rollouts are not measured"
	partMeasured  = "partly assumed: no rollout of this kind has been measured yet"
	otherSources  = "given, or read from the pods"
)

// learned returns the durations that the manager has measured: those of the newest revision that has some.
func (f *prediction) learned() (d everynode.Durations) {
	if f.neverMeasured() {
		return d // it is another controller that writes the revisions
	}
	for i := range f.view.History.Revisions {
		if of := f.view.History.Revisions[i].Durations; of != (everynode.Durations{}) {
			d = of
		}
	}
	return d
}

// neverMeasured reports whether the manager measures no update of the set, because another controller keeps the pods and no policy updates them.
func (f *prediction) neverMeasured() bool {
	w := f.view.Workload
	return w.Set.ExternalController && w.ByPolicy == nil
}

// learn replaces an assumption by what was measured.
func (a *Assumption) learn(d everynode.Durations) {
	of, ok := map[string]everynode.Duration{"stop": d.Stop, "start": d.Start, "change": d.Change}[a.Name]
	if ok && of.Pods > 0 {
		a.value, a.high, a.Pods, a.assumed = of.Usual, of.Long, of.Pods, false
		a.Source = measured(of.Pods)
	}
}

func measured(pods int) string {
	return fmt.Sprintf("from %s of the last rollouts", view.Plural(pods, "pod"))
}

// foreseeRange simulates the plan with the usual durations, and again with the long ones.
func (f *prediction) foreseeRange() error {
	if err := f.simulate(); err != nil {
		return err
	}
	f.longest = f.result.Duration
	f.lastEnd = f.governor.lastEnd()
	f.longestEnd = f.lastEnd
	slow := *f
	slow.assumed = slices.Clone(f.assumed)
	for i := range slow.assumed {
		a := &slow.assumed[i]
		a.value = max(a.value, a.high)
	}
	if slices.Equal(slow.assumed, f.assumed) {
		return nil
	}
	if err := slow.simulate(); err != nil {
		return err
	}
	f.longest, f.longestEnd = max(f.longest, slow.result.Duration), max(f.longestEnd, slow.governor.lastEnd())
	return nil
}

// estimate returns the range and its source.
func (f *prediction) estimate() Estimate {
	e := Estimate{Low: text(f.result.Duration), High: text(f.longest)}
	if f.lastEnd > f.result.Duration {
		e.EndLow, e.EndHigh = text(f.lastEnd), text(f.longestEnd)
	}
	guessed := false
	for i := range f.assumed {
		a := &f.assumed[i]
		if f.dependsOn(a.Name) {
			guessed, e.Pods = guessed || a.assumed, max(e.Pods, a.Pods)
		}
	}
	switch {
	case guessed && f.neverMeasured():
		e.Source = neverMeasured
	case guessed && f.learned() != everynode.Durations{}:
		e.Source, e.Pods = partMeasured, 0
	case guessed:
		e.Source = notMeasured
	case e.Pods > 0:
		e.Source = measured(e.Pods)
	default:
		e.Source = otherSources
	}
	return e
}

// dependsOn reports whether the duration depends on what pods take for this.
func (f *prediction) dependsOn(name string) bool {
	c := f.result.Count()
	switch name {
	case "stop":
		return c[plan.Recreate]+c[plan.Surge]+c[plan.Remove] > 0
	case "start":
		return c[plan.Create]+c[plan.Recreate]+c[plan.Surge] > 0
	case "change":
		return c[plan.InPlace] > 0
	default:
		return false
	}
}

// text is the range for users.
func (e *Estimate) text() string {
	t := interval(e.Low, e.High)
	if e.EndLow != "" {
		t += " until all nodes are updated; with the last soak " + interval(e.EndLow, e.EndHigh)
	}
	return t
}

// interval is two durations as one text.
func interval(low, high string) string {
	low, high = span(low), span(high)
	if low == high || high == "" {
		return low
	}
	return low + " to " + high
}

// text formats an assumption: measured durations as a range, in tenths of a second.
func (a *Assumption) text() string {
	if a.Pods == 0 {
		return a.Value
	}
	tenths := func(d time.Duration) string { return d.Round(time.Second / 10).String() }
	return interval(tenths(a.value), tenths(a.high))
}
