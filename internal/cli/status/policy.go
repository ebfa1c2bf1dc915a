// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"io"
	"strings"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/cli/options"
)

// policyLines are the lines of a picture about the rollout policy of the set: its state, the waves, what was measured, and the next action.
func policyLines(sight *inspect.Observation) []string {
	r := sight.Policy
	if r == nil {
		return nil
	}
	lines := []string{r.Headline()}
	if r.Stalled != "" {
		lines = append(lines, options.Printable("stalled: "+r.Stalled))
	}
	if r.Waits != "" {
		lines = append(lines, options.Printable("waits: "+r.Waits))
	}
	var waves []string
	for _, row := range waveRows(r)[1:] {
		waves = append(waves, fmt.Sprintf("%s %s/%s %s", row[0], row[3], row[1], row[4]))
	}
	if len(waves) > 0 {
		lines = append(lines, "waves: "+strings.Join(waves, ", "))
	}
	for _, m := range r.Measured() {
		if m.Wave == r.Wave {
			lines = append(lines, options.Printable("analysis: "+m.Line()))
		}
	}
	for _, text := range r.DecisionLines() {
		lines = append(lines, options.Printable("decision: "+text))
	}
	if next := sight.Next(); next != "" {
		lines = append(lines, options.Printable("next: "+next))
	}
	return lines
}

// policy prints what the rollout policy of the set reports.
func (s *status) policy(w io.Writer, all *inspect.Report) error {
	r := all.Policy
	if r == nil {
		return nil
	}
	lines := []string{"", r.Headline()}
	if !r.Reported {
		lines = append(lines, "no manager has reported this yet: it is what a manager would report now")
	}
	if len(r.Others) > 0 {
		lines = append(lines, "further policies apply to the set, so none is followed: "+strings.Join(r.Others, ", "))
	}
	if r.Stalled != "" {
		lines = append(lines, "stalled: "+r.Stalled)
	}
	if r.Waits != "" {
		lines = append(lines, "waits: "+r.Waits)
	}
	for _, b := range r.Blocking {
		lines = append(lines, "waits: "+b.Message)
	}
	for _, text := range r.DecisionLines() {
		lines = append(lines, "decision: "+text)
	}
	if all.Next != "" {
		lines = append(lines, "next: "+all.Next)
	}
	for i, line := range lines {
		lines[i] = options.Printable(line)
	}
	if _, err := io.WriteString(w, strings.Join(lines, "\n")+"\n"); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	if len(r.Waves) == 0 {
		return nil
	}
	if err := options.Columns(w, waveRows(r)); err != nil {
		return err
	}
	if err := s.analyses(w, r); err != nil {
		return err
	}
	return s.failedNodes(w, all)
}

// analyses prints what was measured, and what is allowed.
func (s *status) analyses(w io.Writer, r *inspect.PolicyReport) error {
	rows := [][]string{{"ANALYSIS", "WAVE", "ANSWER", "MEASURED", "ALLOWED", "FAILURES", "AGE", "MESSAGE"}}
	for _, m := range r.Measured() {
		age := "-"
		if !m.At.IsZero() {
			age = inspect.Age(s.Now().Sub(m.At))
		}
		row := []string{m.Name, m.Wave, m.Answer, m.Value, m.Allowed, m.Failures, age, m.Message}
		for i := range row {
			row[i] = options.Printable(row[i])
		}
		rows = append(rows, row)
	}
	if len(rows) == 1 {
		return nil
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return options.Columns(w, rows)
}

// mostFailed is how many failed nodes of a wave are shown.
const mostFailed = 10

// failedNodes prints the nodes on which the revision has failed, with the command that shows the log of each pod.
func (s *status) failedNodes(w io.Writer, all *inspect.Report) error {
	rows := [][]string{{"FAILED NODE", "WAVE", "REASON", "EXIT", "MESSAGE", "LOG"}}
	r, hidden, exists := all.Policy, 0, map[string]bool{}
	for i := range all.Nodes {
		for k := range all.Nodes[i].Pods {
			exists[all.Nodes[i].Pods[k].Name] = true
		}
	}
	for i := range r.Waves {
		wave := &r.Waves[i]
		shown := min(len(wave.FailedNodes), mostFailed)
		hidden += int(wave.Failed) - shown
		for k := range wave.FailedNodes[:shown] {
			n := &wave.FailedNodes[k]
			rows = append(rows, []string{n.Name, wave.Name, n.Reason, inspect.Exit(n), n.Message, r.Log(n, exists[n.Pod])})
		}
	}
	if len(rows) == 1 {
		return nil
	}
	for _, row := range rows {
		for i := range row {
			row[i] = options.Printable(row[i])
		}
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	if err := options.Columns(w, rows); err != nil || hidden == 0 {
		return err
	}
	_, err := fmt.Fprintf(w, "and %d more\n", hidden)
	return err //nolint:wrapcheck // the writer is the caller's
}

func waveRows(r *inspect.PolicyReport) [][]string {
	rows := [][]string{{"WAVE", "NODES", "UPDATED", "AVAILABLE", "PHASE", "APPROVAL"}}
	for i := range r.Waves {
		wave := &r.Waves[i]
		rows = append(rows, []string{
			wave.Name, fmt.Sprint(wave.Nodes), fmt.Sprint(wave.Updated), fmt.Sprint(wave.Available), phase(r, wave), approval(r, wave),
		})
	}
	return rows
}

// phase is the phase of a wave, and how many of its nodes are gone.
func phase(r *inspect.PolicyReport, w *v1alpha1.WaveStatus) string {
	if w.Gone == 0 {
		return r.PhaseOf(w)
	}
	return fmt.Sprintf("%s, %d gone", r.PhaseOf(w), w.Gone)
}

// approval says who approved a wave, or ended its soak.
func approval(r *inspect.PolicyReport, w *v1alpha1.WaveStatus) string {
	how := ""
	if r.Promoted(w) {
		how = "promoted by "
	}
	switch {
	case w.Approval == "":
		return "-"
	case w.ApprovedBy == "":
		return how + "a user whom the approval does not name (" + w.Approval + ")"
	default:
		return how + w.ApprovedBy + " (" + w.Approval + ")"
	}
}
