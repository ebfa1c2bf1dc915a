// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"strings"
	"time"
)

// printPlan prints everything that a plan says.
func printPlan(s *Snapshot, p Plan) string {
	var out strings.Builder
	for i, v := range p.Verdicts {
		charged := ""
		if v.Charged {
			charged = " charged"
		}
		if v.Detail != NoDetail {
			charged += fmt.Sprintf(" (%s)", v.Detail)
		}
		fmt.Fprintf(&out, "%s %s%s%s\n", s.Nodes[i].Name, v.Kind, charged, nodeActions(s, p, i))
	}
	kind := "unavailable"
	if p.Budget.Surge {
		kind = "surging"
	}
	b := p.Budget
	fmt.Fprintf(&out, "budget: limit %d %s; used by update %d, others %d, unreachable %d\n",
		b.Limit, kind, b.UsedByUpdate, b.UsedByOthers, b.UsedByUnreachable)
	st := p.Status
	fmt.Fprintf(&out, "status: desired %d current %d misscheduled %d ready %d updated %d available %d unavailable %d\n",
		st.Desired, st.Current, st.Misscheduled, st.Ready, st.Updated, st.Available, st.Unavailable)
	for _, n := range p.Notes {
		fmt.Fprintf(&out, "note: %s %s on %s, action %d\n", n.Kind, n.Pod, s.Nodes[n.Node].Name, n.Action)
	}
	for _, a := range p.Announcements {
		fmt.Fprintf(&out, "%s on %s\n", announced(a), s.Nodes[a.Node].Name)
	}
	for _, b := range p.Memory.Backoffs {
		fmt.Fprintf(&out, "back-off: %s %s since %s\n", b.Node, b.Delay, since(b.Last))
	}
	if p.Wake != 0 {
		fmt.Fprintf(&out, "wake: %s\n", since(p.Wake))
	}
	return out.String()
}

// nodeActions lists the actions for one node with their places in the plan.
func nodeActions(s *Snapshot, p Plan, node int) string {
	out := ""
	for i, a := range p.Actions {
		switch {
		case a.Node != node:
		case a.Kind == Create:
			out += fmt.Sprintf(" #%d create %s", i, s.Revisions[a.Revision].Name)
		case a.Kind == Patch:
			out += fmt.Sprintf(" #%d patch %s to %s", i, a.Pod, s.Revisions[a.Revision].Name)
		default:
			out += fmt.Sprintf(" #%d %s %s", i, a.Kind, a.Pod)
		}
		if a.Node == node && a.Reason != p.Verdicts[node].Kind {
			out += fmt.Sprintf(" (%s)", a.Reason)
		}
	}
	return out
}

// since prints a time as the distance from the beginning of every script.
func since(t Time) string {
	d := t.Sub(testNow)
	if d < 0 {
		return d.String()
	}
	return "+" + d.Round(time.Millisecond).String()
}

// podsOf prints the pods of every node: revision and state, the latter as one sign.
func podsOf(s *Snapshot) string {
	var out strings.Builder
	for _, n := range s.Nodes {
		cells := []string{}
		for _, p := range n.Pods {
			cells = append(cells, revisionName(s, p.Revision)+podSign(p))
		}
		fmt.Fprintf(&out, "%s[%s] ", n.Name, strings.Join(cells, " "))
	}
	return out.String()
}

func revisionName(s *Snapshot, revision int) string {
	if revision < 0 || revision >= len(s.Revisions) {
		return "?"
	}
	return s.Revisions[revision].Name
}

func podSign(p Pod) string {
	switch {
	case p.Deleting:
		return "-"
	case p.Hook == HookWaiting:
		return "h"
	case p.Hook == HookReleased:
		return "r"
	case p.InPlace == InPlaceMarked:
		return "m"
	case p.InPlace == InPlacePatched && p.Open:
		return "c"
	case p.InPlace == InPlacePatched:
		return "p"
	case p.InPlace == InPlaceArrived:
		return "a"
	case p.InPlace == InPlaceAnnounced:
		return "o"
	case p.Phase == Failed:
		return "!"
	case p.Phase == Succeeded:
		return "$"
	case p.Ready:
		return "*"
	case !p.Scheduled:
		return "?"
	default:
		return "~"
	}
}

// actionsOf prints the actions of a plan behind the pods that it was made for.
func actionsOf(nodes []Node, p Plan) string {
	if len(p.Actions)+len(p.Announcements) == 0 {
		return "nothing"
	}
	var out []string
	for _, a := range p.Actions {
		if a.Kind == Create {
			out = append(out, "create on "+nodes[a.Node].Name)
		} else {
			out = append(out, a.Kind.String()+" "+a.Pod)
		}
	}
	for _, a := range p.Announcements {
		out = append(out, announced(a))
	}
	return strings.Join(out, ", ")
}

func announced(a Announcement) string {
	switch {
	case a.Withdraw:
		return a.Pod + " says nothing"
	case a.Old:
		return a.Pod + " says it is old"
	default:
		return a.Pod + " says it is new"
	}
}
