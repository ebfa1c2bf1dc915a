// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/internal/cli/view"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// PolicyWait is a time in which a window or a freeze holds updates that could start otherwise. Times are relative to the begin of the rollout.
type PolicyWait struct {
	// For is what lets updates start again: Window (one opens) or Freeze (it ends).
	For   string `json:"for"`
	From  string `json:"from"`
	Until string `json:"until"`
}

// The values of PolicyWait.For.
const (
	forWindow = "Window"
	forFreeze = "Freeze"
)

// PolicyPace is how fast the policy lets updates start; a limit that the policy does not have is omitted.
type PolicyPace struct {
	MaxUpgrading   string `json:"maxUpgrading,omitempty"`
	MaxUnavailable string `json:"maxUnavailable,omitempty"`
	MinTimeBetween string `json:"minTimeBetween,omitempty"`
}

// closedTime is a time in which updates wait for a window or a freeze: kind is what ends last.
type closedTime struct {
	kind        rollout.VerdictKind
	from, until rollout.Time
}

// seeWaits notes since when updates wait for a window or a freeze, and when that ends.
func (g *governor) seeWaits(now rollout.Time, verdicts []rollout.Verdict) {
	kind := rollout.NotEvaluated
	for i := range verdicts {
		if k := verdicts[i].Kind; k == rollout.WaitWindow || k == rollout.WaitFreeze {
			kind = k
			break
		}
	}
	last := len(g.closed) - 1
	switch waits := last >= 0 && g.closed[last].until == 0; {
	case waits && kind == rollout.NotEvaluated:
		g.closed[last].until = now
	case waits:
		g.closed[last].kind = kind // a freeze begins, or ends outside of the windows
	case kind != rollout.NotEvaluated:
		g.closed = append(g.closed, closedTime{kind: kind, from: now})
	}
}

// waits returns the times in which updates wait for a window or a freeze. One that does not end is what holds the rollout, which the plan shows anyway.
func (g *governor) waits() (all []PolicyWait) {
	for _, c := range g.closed {
		if c.until.Sub(c.from) < time.Second {
			continue
		}
		w := PolicyWait{For: forWindow, From: text(c.from.Sub(g.begin)), Until: startText(c.until.Sub(g.begin))}
		if c.kind == rollout.WaitFreeze {
			w.For = forFreeze
		}
		all = append(all, w)
	}
	return all
}

// paceOf returns the pace of a policy; nil if it has none.
func paceOf(p *policy.Policy) *PolicyPace {
	amount := func(q *rollout.Quantity) string {
		switch {
		case q == nil:
			return ""
		case q.Percent:
			return strconv.Itoa(q.Value) + "%"
		default:
			return strconv.Itoa(q.Value)
		}
	}
	pace := PolicyPace{MaxUpgrading: amount(p.MaxUpgrading), MaxUnavailable: amount(p.MaxUnavailable)}
	if p.MinTimeBetween > 0 {
		pace.MinTimeBetween = p.MinTimeBetween.String()
	}
	if pace == (PolicyPace{}) {
		return nil
	}
	return &pace
}

// text is a sentence about it.
func (p *PolicyPace) text() string {
	var limits []string
	if p.MaxUpgrading != "" {
		limits = append(limits, fmt.Sprintf("at most %s in progress (spec.pace.maxUpgrading)", nodesText(p.MaxUpgrading)))
	}
	if p.MaxUnavailable != "" {
		limits = append(limits, fmt.Sprintf("at most %s unavailable (spec.pace.maxUnavailable)", nodesText(p.MaxUnavailable)))
	}
	if p.MinTimeBetween != "" {
		limits = append(limits, fmt.Sprintf("at least %s between two starts (spec.pace.minTimeBetween)", p.MinTimeBetween))
	}
	return "Its pace is " + strings.Join(limits, ", ") + "."
}

func nodesText(quantity string) string {
	if n, err := strconv.Atoi(quantity); err == nil {
		return view.Plural(n, "node")
	}
	return quantity + " of the nodes"
}

// fewWaits is the number of times that are listed, if there are more.
const fewWaits = 3

// waits prints when updates wait for a window or a freeze.
func (s *screen) waits(all []PolicyWait, now time.Time) {
	for i, w := range all {
		if i == fewWaits && len(all) > fewWaits+1 {
			s.line("It waits %d more times for windows or freezes, the last time until %s.", len(all)-i, moment(metav1.NewTime(now), all[len(all)-1].Until))
			return
		}
		what := "the window that opens at"
		if w.For == forFreeze {
			what = "the freeze that ends at"
		}
		s.line("It waits for %s %s (after %s).", what, moment(metav1.NewTime(now), w.Until), span(w.Until))
	}
}

// span is a duration of the document for users: from a day on with days. It keeps the seconds: after a freeze of days, they are all that differs between the waves.
func span(written string) string {
	d, err := time.ParseDuration(written)
	const day = 24 * time.Hour
	if err != nil || d < day {
		return written
	}
	text := fmt.Sprintf("%dd", d/day)
	if rest := (d % day).Truncate(time.Second); rest > 0 {
		text += strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(rest.String())
	}
	return text
}

// waitsForPolicy reports whether a node waits for a rollout policy.
func (d *Document) waitsForPolicy() bool {
	return slices.ContainsFunc(d.Nodes, func(n Node) bool { return n.Reason == rollout.WaitPolicy.String() })
}
