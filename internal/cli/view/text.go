// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"strings"
	"time"

	"everynode.dev/everynode/internal/rollout"
)

// Duration formats a duration for users: "0.4s", "12s", "1m05s", "2h03m".
func Duration(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + Duration(-d)
	case d < 950*time.Millisecond:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < 59500*time.Millisecond:
		return fmt.Sprintf("%ds", int(d.Round(time.Second).Seconds()))
	case d < time.Hour:
		d = d.Round(time.Second)
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	default:
		d = d.Round(time.Minute)
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
}

// List returns the first names and the number of the others: "a, b, c and 14 more".
func List(names []string, few int) string {
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}

// Plural writes "1 node" and "2 nodes".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if strings.HasSuffix(noun, "ch") {
		noun += "e"
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// progress returns the progress of the update: "18/30 updated, 26 available".
func (m Model) progress() string { return m.updated() + ", " + m.available() }

func (m Model) updated() string {
	return fmt.Sprintf("%d/%d updated", m.Status.Updated, m.Status.Desired)
}

func (m Model) available() string { return fmt.Sprintf("%d available", m.Status.Available) }

// BudgetText returns the budget and its use: "4 of budget 6 used (2 on nodes not ready)". The use may exceed the budget:
// nodes whose pod was not available before are updated in addition, and nodes that fail, or have no pod yet, are counted
// without a decision. Then it is a sentence: "7 nodes without an available pod; at most 6 may be". A terminating pod uses
// the budget, and may still be available.
func BudgetText(b rollout.Budget) string {
	if text := overBudget(b); text != "" {
		return text
	}
	return budgetUsed(b) + budgetUsers(b, onNotReady)
}

func budgetUsed(b rollout.Budget) string {
	kind := "budget"
	if b.Surge {
		kind = "surge budget"
	}
	return fmt.Sprintf("%d of %s %d used", b.Used(), kind, b.Limit)
}

// overBudget describes that more nodes use the budget than it has; empty if they do not.
func overBudget(b rollout.Budget) string {
	lack := "without an available pod"
	if !b.Exceeded() {
		return ""
	}
	if b.Surge {
		lack = "with two pods, or none that is available"
	}
	return fmt.Sprintf("%s %s%s; at most %d may be", Plural(b.Used(), "node"), lack, budgetUsers(b, "of them not ready"), b.Limit)
}

// onNotReady is how budgetUsers names nodes that are not ready, if no nodes are named before.
const onNotReady = "on nodes not ready"

// budgetUsers returns what uses the budget other than the update: " (2 on nodes not ready)", or "".
func budgetUsers(b rollout.Budget, notReady string) string {
	var why []string
	if b.UsedByUnreachable > 0 {
		why = append(why, fmt.Sprintf("%d %s", b.UsedByUnreachable, notReady))
	}
	if b.UsedByOthers > 0 {
		why = append(why, fmt.Sprintf("%d not by the update", b.UsedByOthers))
	}
	if len(why) == 0 {
		return ""
	}
	return " (" + strings.Join(why, ", ") + ")"
}

// forecast returns the estimated remaining time; it is empty if that is unknown or the update has ended.
func (m Model) forecast() string {
	switch {
	case m.Pace.Owners:
		return "the rest when the owners of the nodes upgrade them"
	case m.Pace.Paused:
		return "paused"
	case m.Pace.OnDelete:
		return "the rest when the old pods are deleted"
	case m.Pace.Policy:
		return "the rollout policy holds the rest"
	case m.Pace.Stalled > 0:
		return "no progress for " + Duration(m.Pace.Stalled)
	case m.Pace.Known:
		text := fmt.Sprintf("about %s left at %s", Duration(m.Pace.Left), speed(m.Pace.PerSecond))
		if m.Pace.Note != "" {
			text += ", " + m.Pace.Note
		}
		return text
	default:
		return ""
	}
}

// speed formats a speed in a unit in which it is not 0.0.
func speed(perSecond float64) string {
	switch {
	case perSecond >= 0.1:
		return fmt.Sprintf("%.1f nodes/s", perSecond)
	case perSecond*60 >= 0.1:
		return fmt.Sprintf("%.1f nodes/min", perSecond*60)
	default:
		return fmt.Sprintf("%.1f nodes/h", perSecond*3600)
	}
}

// elapsed returns the time since the command started to watch.
func (m Model) elapsed() time.Duration {
	if m.Started == 0 {
		return 0
	}
	return m.Now.Sub(m.Started)
}

// sentence returns the nodes and why they wait: "n-07, n-08 (not ready for 12s): a pod is …".
func (w Wait) sentence(names int) string {
	who := List(w.Nodes, names)
	if w.NotReady > 0 {
		who += fmt.Sprintf(" (not ready for %s)", Duration(w.NotReady))
	}
	return who + ": " + w.Why()
}
