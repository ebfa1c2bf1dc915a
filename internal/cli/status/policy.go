// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"io"
	"strings"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/policy"
)

// policy prints what the rollout policy of the set reports.
func (s *status) policy(w io.Writer, r *inspect.PolicyReport) error {
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
	for _, b := range r.Blocking {
		lines = append(lines, "waits: "+b.Message)
	}
	set := "daemonset/" + r.SetStatus.Name
	if strings.HasPrefix(r.APIVersion, "apps.kruise.io/") {
		set = "ads/" + r.SetStatus.Name
	}
	if next := r.NextAction(s.Now(), set); next != "" {
		lines = append(lines, "next: "+next)
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
	return options.Columns(w, waveRows(r))
}

func waveRows(r *inspect.PolicyReport) [][]string {
	rows := [][]string{{"WAVE", "NODES", "UPDATED", "AVAILABLE", "PHASE", "APPROVAL"}}
	for i := range r.Waves {
		wave := &r.Waves[i]
		if wave.Nodes == 0 && wave.Name == policy.Remaining {
			continue // all nodes belong to other waves
		}
		rows = append(rows, []string{
			wave.Name, fmt.Sprint(wave.Nodes), fmt.Sprint(wave.Updated), fmt.Sprint(wave.Available), string(wave.Phase), approval(wave),
		})
	}
	return rows
}

// approval says who approved a wave, or ended its soak.
func approval(w *v1alpha1.WaveStatus) string {
	switch {
	case w.Approval == "":
		return "-"
	case w.ApprovedBy == "":
		return w.Approval
	default:
		return w.ApprovedBy + " (" + w.Approval + ")"
	}
}
