// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/view"
	"everynode.dev/everynode/internal/plan"
)

// fewNames is the number of nodes listed in one line, fewBatches the number of batches listed at each end.
const (
	fewNames   = 4
	fewBatches = 5
)

// show prints a document for users.
func show(w io.Writer, o *options.Options, d *Document) error {
	s := &screen{w: w, colour: o.Colour()}
	s.head(d)
	s.diff(d.Diff)
	s.counts(d)
	if o.Wide() {
		s.nodes(d)
	} else {
		s.batches(d)
	}
	s.policy(d.Policy, o.Now())
	s.whatIf(d.WhatIf)
	s.warnings(d)
	s.estimate(d)
	return s.err
}

// screen prints, and keeps the first error.
type screen struct {
	w      io.Writer
	colour bool
	err    error
}

func (s *screen) line(format string, args ...any) {
	if s.err == nil {
		_, s.err = fmt.Fprintf(s.w, format+"\n", args...)
	}
}

func (s *screen) columns(rows [][]string) {
	if s.err == nil {
		s.err = options.Columns(s.w, rows)
	}
}

func (s *screen) head(d *Document) {
	name := options.Printable(d.Namespace + "/" + d.Set)
	switch d.CurrentRevision {
	case "":
		s.line("Plan for %s, which does not exist yet: nothing has been changed", name)
		s.line("Revision %s", d.Revision)
	case d.Revision:
		s.line("Plan for %s: nothing has been changed", name)
		s.line("Revision %s stays", d.Revision)
	default:
		s.line("Plan for %s: nothing has been changed", name)
		s.line("Revision %s -> %s", d.CurrentRevision, d.Revision)
	}
}

// diff prints the changes of the template.
func (s *screen) diff(text string) {
	if text == "" {
		return
	}
	s.line("")
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		tone := ""
		switch {
		case !s.colour:
		case strings.HasPrefix(line, "+"):
			tone = "32"
		case strings.HasPrefix(line, "-"):
			tone = "31"
		case strings.HasPrefix(line, "@"):
			tone = "36"
		}
		if line = options.Printable(line); tone != "" {
			line = "\x1b[" + tone + "m" + line + "\x1b[0m"
		}
		s.line("%s", line)
	}
}

func (s *screen) counts(d *Document) {
	s.line("")
	rows := [][]string{{"VERDICT", "NODES", "WHAT"}}
	for _, v := range plan.Verdicts() {
		if n := d.Counts[v]; n > 0 {
			rows = append(rows, []string{string(v), strconv.Itoa(n), v.Sentence()})
		}
	}
	s.columns(rows)
}

// nodes prints one line for each node.
func (s *screen) nodes(d *Document) {
	s.line("")
	rows := [][]string{{"NODE", "VERDICT", "BATCH", "START", "END", "WHY"}}
	for _, n := range d.Nodes {
		rows = append(rows, []string{n.Name, string(n.Verdict), batch(n.Wave), cmp.Or(span(n.Start), "-"), cmp.Or(span(n.End), "-"), n.Message})
	}
	s.columns(rows)
}

func batch(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

// row is a number of nodes of one batch with the same verdict and reason.
type row struct {
	batch            int
	verdict, message string
	// start is when the first of them starts, and last when the last one does.
	start, last string
	nodes       []string
}

// batches prints one line for the nodes with the same batch, verdict and reason. If there are many batches, it prints the
// first and the last ones.
func (s *screen) batches(d *Document) {
	rows := group(d.Nodes)
	if len(rows) == 0 {
		return
	}
	s.line("")
	last := rows[len(rows)-1].batch
	for _, r := range rows {
		last = max(last, r.batch)
	}
	lines := [][]string{{"BATCH", "VERDICT", "NODES", "START", "WHY", "NAMES"}}
	hidden, nodes := 0, 0
	for i, r := range rows {
		if r.batch > fewBatches && r.batch <= last-fewBatches && last > 2*fewBatches+1 {
			nodes += len(r.nodes)
			if i == 0 || rows[i-1].batch != r.batch {
				hidden++
			}
			continue
		}
		if hidden > 0 {
			lines = append(lines, []string{"...", "", strconv.Itoa(nodes), "", fmt.Sprintf("%d more batches (all nodes with -o wide)", hidden), ""})
			hidden = 0
		}
		lines = append(lines, []string{batch(r.batch), r.verdict, strconv.Itoa(len(r.nodes)), r.starts(d.Policy != nil), r.message, names(r.nodes)})
	}
	s.columns(lines)
}

// starts is when the first of the nodes starts; under a policy, the others may follow much later, so it also says when the last one does.
func (r *row) starts(policy bool) string {
	if policy && r.last != r.start {
		return span(r.start) + " to " + span(r.last)
	}
	return cmp.Or(span(r.start), "-")
}

// group groups the nodes in the order of their batches, without those on which nothing happens. Nodes that do not start
// come last.
func group(nodes []Node) []row {
	var rows []row
	for _, n := range nodes {
		if n.Verdict == plan.Leave {
			continue
		}
		at := slices.IndexFunc(rows, func(r row) bool { return r.batch == n.Wave && r.verdict == string(n.Verdict) && r.message == n.Message })
		if at < 0 {
			rows = append(rows, row{batch: n.Wave, verdict: string(n.Verdict), message: n.Message, start: n.Start, last: n.Start})
			at = len(rows) - 1
		}
		if sooner(n.Start, rows[at].start) {
			rows[at].start = n.Start
		}
		if sooner(rows[at].last, n.Start) {
			rows[at].last = n.Start
		}
		rows[at].nodes = append(rows[at].nodes, n.Name)
	}
	order := func(r row) int {
		if r.batch == 0 {
			return len(nodes) + 1
		}
		return r.batch
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Or(cmp.Compare(order(a), order(b)), cmp.Compare(a.verdict, b.verdict)) })
	return rows
}

// sooner reports whether a start is before another one.
func sooner(a, b string) bool {
	one, err := time.ParseDuration(a)
	other, replanRequest := time.ParseDuration(b)
	return err == nil && replanRequest == nil && one < other // there is no time if nothing starts
}

// names lists the first nodes, and the number of the others.
func names(nodes []string) string {
	if len(nodes) <= fewNames {
		return strings.Join(nodes, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(nodes[:fewNames-1], ", "), len(nodes)-fewNames+1)
}

func (s *screen) warnings(d *Document) {
	if len(d.Warnings) == 0 {
		return
	}
	s.line("")
	s.line("Warnings:")
	for _, w := range d.Warnings {
		text := options.Printable(w.Message)
		if len(w.Nodes) > 0 {
			text += " (" + options.Printable(names(w.Nodes)) + ")"
		}
		s.line("  - %s", text)
	}
}

func (s *screen) estimate(d *Document) {
	s.line("")
	b := d.Budget
	touched := 0
	for v, n := range d.Counts {
		if v.Starts() {
			touched += n
		}
	}
	if touched == 0 {
		if d.PoliciesUnread && d.waitsForPolicy() {
			s.line("It is not known whether anything starts, because the rollout policies cannot be read.")
			return
		}
		s.line("Nothing starts.")
		return
	}
	unit := "unavailable"
	if b.Of == "surge" {
		unit = "with two pods"
	}
	if b.Waves > 0 {
		s.line("Budget: %d %s at once, so %s%s; at most %d without an available pod at once (%d now).", b.Limit, unit, view.Plural(b.Waves, "batch"), b.simultaneous(), b.MostDown, b.DownNow)
	}
	s.line("Estimate: %s (%s)%s", d.Estimate.text(), d.Estimate.Source, unfinished(d.Unfinished))
	for _, a := range d.Assumptions {
		if !a.matters {
			continue
		}
		s.line("  %-7s %-7s %s", a.Name, a.text(), a.Source)
	}
}

// simultaneous returns the number of simultaneous updates if it differs from the budget, otherwise "".
func (b *Budget) simultaneous() string {
	switch {
	case b.MostAtOnce < b.Limit:
		return fmt.Sprintf("; the update takes %d at once", b.MostAtOnce)
	case b.MostAtOnce == b.Limit:
		return ""
	case b.Of == "surge":
		return fmt.Sprintf("; %d at once: an old pod that is not available, or is terminating, does not use the budget", b.MostAtOnce)
	default:
		return fmt.Sprintf("; %d at once: pods that are not available are replaced without using the budget", b.MostAtOnce)
	}
}

func unfinished(n int) string {
	if n == 0 {
		return ", if:"
	}
	return fmt.Sprintf(" for all but %s on which it does not finish, if:", view.Plural(n, "node"))
}
