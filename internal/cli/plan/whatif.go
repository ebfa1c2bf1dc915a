// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/view"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// WhatIf is what a plan foresees if the new revision fails on some nodes.
type WhatIf struct {
	// Failed are the nodes on which containers of the new revision crash.
	Failed []string `json:"failed"`
	// Reached are the nodes that nevertheless get the new revision, before the rollout stops or ends.
	Reached []string `json:"reached"`
	// Judged reports whether a rollout policy judges the new revision.
	Judged bool `json:"judged"`
	// Wave is the wave in which the revision fails, At when, and Message why; empty if the policy does not let it fail.
	Wave    string `json:"wave,omitempty"`
	At      string `json:"at,omitempty"`
	Message string `json:"message,omitempty"`
	// Action is what the policy does then, Pause or Undo, and Back when the last node has returned to the committed revision.
	Action v1alpha1.FailureAction `json:"action,omitempty"`
	Back   string                 `json:"back,omitempty"`
	// Waits is why the nodes do not return for a time, with the remedy: a window or a freeze.
	Waits string `json:"waits,omitempty"`
	// Holds is the reason why the nodes do not return, where the action is Undo; empty otherwise.
	Holds string `json:"holds,omitempty"`
}

// Judgement is by what a rollout policy judges a new revision.
type Judgement struct {
	NodeDeadline string `json:"nodeDeadline"`
	WaveDeadline string `json:"waveDeadline,omitempty"`
	MaxRestarts  int    `json:"maxRestarts"`
	// WaitingReasons are the reasons of waiting containers that make a node fail at once.
	WaitingReasons []string `json:"waitingReasons"`
	// MaxFailedNodes is how many nodes of a wave may fail: a number or a percentage.
	MaxFailedNodes string                 `json:"maxFailedNodes"`
	Action         v1alpha1.FailureAction `json:"action"`
}

func judgement(f *policy.Failure) *Judgement {
	j := &Judgement{
		NodeDeadline: f.NodeDeadline.String(), MaxRestarts: f.MaxRestarts, MaxFailedNodes: strconv.Itoa(f.MaxFailedNodes.Value),
		WaitingReasons: append([]string{}, f.Waiting.Reasons()...), Action: v1alpha1.FailurePause,
	}
	if f.MaxFailedNodes.Percent {
		j.MaxFailedNodes += "%"
	}
	if f.WaveDeadline > 0 {
		j.WaveDeadline = f.WaveDeadline.String()
	}
	if f.Undo {
		j.Action = v1alpha1.FailureUndo
	}
	return j
}

// text is a sentence about it.
func (j *Judgement) text() string {
	text := fmt.Sprintf("It judges the new revision: a node fails if its pod is not available for %s, or is restarted more than %s", j.NodeDeadline, view.Plural(j.MaxRestarts, "time"))
	if len(j.WaitingReasons) > 0 {
		text += ", or waits because of " + strings.Join(j.WaitingReasons, ", ")
	}
	text += fmt.Sprintf("; with more than %s failed nodes in a wave", j.MaxFailedNodes)
	if j.WaveDeadline != "" {
		text += fmt.Sprintf(", or after %s,", j.WaveDeadline)
	}
	if j.Action == v1alpha1.FailureUndo {
		return text + " the nodes return to the committed revision."
	}
	return text + " the rollout pauses."
}

// everyNode is the value that names all nodes.
const everyNode = "*"

// failedNodes reads the values of --what-if.
func failedNodes(values []string) (nodes []string, err error) {
	for _, value := range values {
		key, names, found := strings.Cut(value, "=")
		if !found || key != "failed" {
			return nil, options.Usagef("--what-if %s: write failed=NODE, with the names of nodes or %s", value, everyNode)
		}
		for name := range strings.SplitSeq(names, ",") {
			if name == "" {
				return nil, options.Usagef("--what-if %s names no node: write failed=NODE, with the names of nodes or %s", value, everyNode)
			}
			nodes = append(nodes, name)
		}
	}
	return nodes, nil
}

// findFailed finds the nodes that --what-if names.
func (f *prediction) findFailed() error {
	if len(f.failed) == 0 {
		return nil
	}
	f.fails = map[string]bool{}
	for i := range f.view.Snapshot.Nodes {
		n := &f.view.Snapshot.Nodes[i]
		if runs := !n.Gone && (n.Fit == rollout.MustRun || n.Fit == rollout.MayStay); runs && (slices.Contains(f.failed, everyNode) || slices.Contains(f.failed, n.Name)) {
			f.fails[n.Name] = true
		}
	}
	for _, name := range f.failed {
		if name != everyNode && !f.fails[name] {
			return options.Usagef("--what-if failed=%s: %s runs on no such node: see `%s plan %s -o wide`", name, f.named, options.Program, f.named)
		}
	}
	return nil
}

// seeFailure records which nodes have the new revision, when it has failed, and when no node has it any more.
func (g *governor) seeFailure(s *rollout.Snapshot) {
	for i := range s.Nodes {
		for k := range s.Nodes[i].Pods {
			if s.Nodes[i].Pods[k].Revision == g.edited {
				g.reached[s.Nodes[i].Name] = true
			}
		}
	}
	st := g.last
	if st == nil {
		return
	}
	if st.Failure != nil && g.failure == nil {
		g.failure, g.failedAt = st.Failure, s.Now
	}
	switch {
	case g.failure == nil:
	case st.Phase == v1alpha1.PhaseUndoing:
		g.undone, g.back = true, 0
		if at := slices.IndexFunc(st.Blocking, func(b v1alpha1.Blocking) bool { return b.Reason == policy.ClosedWindow }); at >= 0 {
			g.undoWaits = st.Blocking[at].Message
		}
	case policy.UndoStopped(st):
		g.back = 0
	case (st.Phase == v1alpha1.PhaseFailed || st.Phase == v1alpha1.PhaseComplete) && g.undone && g.back == 0:
		g.back = s.Now
	}
}

// whatIf returns what follows from the failures; nil if none was asked for.
func (f *prediction) whatIf() *WhatIf {
	if f.fails == nil {
		return nil
	}
	out := &WhatIf{Reached: []string{}}
	for i := range f.result.Nodes {
		n := &f.result.Nodes[i]
		if f.fails[n.Name] {
			out.Failed = append(out.Failed, n.Name)
		}
		if f.governor != nil && f.governor.reached[n.Name] || f.governor == nil && n.Verdict.Starts() && n.Update {
			out.Reached = append(out.Reached, n.Name)
		}
	}
	g := f.governor
	if g == nil || len(g.in.Policies) == 0 {
		return out
	}
	out.Judged = g.in.Policies[0].Failure != nil
	if st := g.last; g.failure != nil {
		out.Wave, out.Message, out.Action = g.failure.Wave, g.failure.Message, g.failure.Action
		out.At, out.Waits = text(g.failedAt.Sub(g.begin)), g.undoWaits
		switch {
		case out.Action != v1alpha1.FailureUndo, len(out.Reached) == 0:
		case g.back != 0:
			out.Back = text(g.back.Sub(g.begin))
		case policy.UndoStopped(st):
			out.Holds = st.Blocking[0].Message
		case len(st.Blocking) > 0:
			out.Holds = st.Blocking[len(st.Blocking)-1].Message
		}
	}
	return out
}

// whatIf prints what follows from failures.
func (s *screen) whatIf(w *WhatIf) {
	if w == nil {
		return
	}
	s.line("")
	s.line("If containers of the new revision crash on %s:", names(w.Failed))
	switch {
	case w.Message != "" && w.At == text(0):
		s.line("  The revision has failed already. %s", options.Printable(w.Message))
	case w.Message != "":
		s.line("  The revision fails in wave %s after %s. %s", options.Printable(w.Wave), span(w.At), options.Printable(w.Message))
	case w.Judged:
		s.line("  The rollout policy does not let the revision fail for that.")
	default:
		s.line("  No rollout policy judges the revision (spec.failure): it stops only where the budget is used up.")
	}
	if len(w.Reached) == 0 {
		s.line("  It reaches no node.")
		return
	}
	s.line("  It reaches %s: %s.", inspect.NodeCount(len(w.Reached)), names(w.Reached))
	switch {
	case w.Back != "":
		s.line("  The nodes return to the committed revision. The last one has it after %s.", span(w.Back))
		if w.Waits != "" {
			s.line("  That includes a time in which the undo waits: %s", options.Printable(w.Waits))
		}
	case w.Holds != "":
		s.line("  The nodes do not return: %s", options.Printable(w.Holds))
	case w.Action == v1alpha1.FailurePause:
		s.line("  The rollout pauses. These nodes keep the new revision until there is another template, or `%s undo --to-committed`.", options.Program)
	}
}
