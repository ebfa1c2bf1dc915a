// SPDX-License-Identifier: Apache-2.0

// Package status implements the command that shows one DaemonSet on one screen, once or continuously, and that waits
// for a rollout.
package status

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/cli/installed"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/policies"
	"everynode.dev/everynode/internal/cli/view"
	"everynode.dev/everynode/internal/policy"
)

type status struct {
	*options.Options
	watch, wait, ignoreUnreachable bool
	timeout                        time.Duration
}

const long = `Show a daemon set on one screen: the revision that its nodes are updated to, the progress in batches of the size of the budget, the
remaining time, and which nodes wait for what or block the update.

If a rollout policy applies to the set, it shows the phase, the waves with their progress and who approved them, the next action, and why
nothing starts.

NAME is the daemon set, or rolloutpolicy/NAME for a policy that applies to one daemon set only.

It shows what Everynode would decide now, read with your own rights, even if no manager of Everynode runs.

With -w the screen is kept up to date until you end it; if the output is not a terminal, each change is a line. With --exit-status
the verb ends when the rollout is finished: every node that it may reach has an available pod of the newest revision. Nodes that a partition,
a selector or a taint excludes are named, and the verb does not wait for them. It does wait for a paused rollout, and for a node that is
not ready and has an old pod, whatever taint it got when it became unreachable, unless --ignore-unreachable is given.

Under a rollout policy, the rollout is finished when the manager has written into the status of the policy that exactly this revision is complete: the phase is
Complete, and targetRevision and committedRevision are the revision of the template. So it waits for soaks, approvals, windows, and for the correction of a
policy that is suspended or stalled; also if all nodes are updated, and also with --ignore-unreachable (spec.unreachableAfter of the policy is what lets
waves continue without a node). It ends when the revision has failed or was rejected. If no manager runs, nothing reports the end, so use --timeout. A policy
that has no effect on the set (enforcement None in its status) does not count: then the nodes alone do, as without a policy. So they do for a user without
the right to read rollout policies, which a note reports.

A node counts as updated and available when its new pod is, also while its old one is still stopping: the status of the object, in which the
oldest pod speaks for its node, counts it a little later.

` + options.ExitText + `
With --exit-status, the exit code is 3 for a rollout that is not finished within --timeout, that cannot be finished because the set is refused, or
the revision has failed or was rejected under a rollout policy, or whose set was deleted.`

const example = `  # One screen
  kubectl everynode status agent

  # Live, until Ctrl-C
  kubectl everynode status ads/agent -w

  # Wait for the rollout in a pipeline, for 10 minutes at most
  kubectl everynode status agent --exit-status --ignore-unreachable --timeout 10m

  # The nodes that are not up to date
  kubectl everynode status agent -o json | jq '.nodes[] | select(.verdict != "up-to-date")'`

// New returns the command status.
func New(o *options.Options) *cobra.Command {
	s := &status{Options: o}
	cmd := &cobra.Command{
		Use:               "status NAME",
		Short:             "Show a rollout on one screen, follow it live, or wait for its end",
		Long:              long,
		Example:           example,
		Args:              options.Arguments(1, policies.Argument("NAME")),
		ValidArgsFunction: policies.Complete(o),
		RunE:              func(cmd *cobra.Command, args []string) error { return s.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().BoolVarP(&s.watch, "watch", "w", false, "Keep the screen up to date until you end it.")
	cmd.Flags().BoolVar(&s.wait, "exit-status", false, "Wait for the end of the rollout, and return its result.")
	cmd.Flags().BoolVar(&s.ignoreUnreachable, "ignore-unreachable", false, "Do not count nodes that are not ready.")
	cmd.Flags().DurationVar(&s.timeout, "timeout", 0, "How long to wait with --exit-status; 0 means no limit.")
	return cmd
}

func (s *status) run(ctx context.Context, arg string) error {
	if err := options.Timeout(s.timeout); err != nil {
		return err
	}
	switch {
	case s.timeout != 0 && !s.wait:
		return options.Usagef("--timeout limits how long --exit-status waits: use both")
	case s.watch && s.ForMachines() && !s.wait:
		return options.Usagef("--watch draws on a terminal: leave --output %s out, or add --exit-status to print it at the end", s.Output)
	}
	clients, err := s.Clients()
	if err != nil {
		return err
	}
	if s.watch || s.wait {
		return s.follow(ctx, clients, arg)
	}
	set, err := policies.FindToRead(ctx, s.Options, clients, arg)
	if err != nil {
		return err
	}
	moment, err := inspect.At(ctx, s.Options, clients, set)
	if err != nil {
		return err
	}
	sight := s.sight(moment)
	report := sight.Report()
	report.Warnings = inspect.Warnings(ctx, s.Options, clients, inspect.About{Set: set, Policy: report.Policy})
	if text := installed.Unread(ctx, clients.Kubernetes, set.Object); text != "" {
		s.Note("%s", text)
	}
	return s.Print(report, func(w io.Writer) error { return s.screen(w, sight, &report) })
}

// sight returns the observation of one moment.
func (s *status) sight(m *inspect.Evaluation) *inspect.Observation {
	pace := view.PastPace(m.Snapshot, m.Plan, m.Began())
	model := view.New(view.Input{Title: m.Set.Title(), Snapshot: m.Snapshot, Plan: m.Plan, Pace: pace})
	model.Explain(m.Cause)
	sight := m.Observe(model)
	sight.IgnoreUnreachable = s.ignoreUnreachable
	return sight
}

// screen draws one moment.
func (s *status) screen(w io.Writer, sight *inspect.Observation, r *inspect.Report) error {
	var b strings.Builder
	drawing := view.OptionsFor(s.Out, s.Getenv)
	drawing.Whole = drawing.Whole || s.Wide()
	if r.Policy != nil { // its waves are what counts
		sight.Model.Batches = view.Batches{}
	}
	b.WriteString(view.Draw(sight.Model, drawing))
	fmt.Fprintf(&b, "%s: %s\n", headline(r), options.Printable(r.Why))
	if r.Policy == nil && r.Stopped != "" { // the lines about a policy have it
		fmt.Fprintf(&b, "stopped: %s\n", options.Printable(r.Stopped))
	}
	if r.Unheld != "" {
		fmt.Fprintf(&b, "not held: %s\n", options.Printable(r.Unheld))
	}
	for _, text := range r.Problems {
		if text != r.Why {
			fmt.Fprintf(&b, "problem: %s\n", options.Printable(text))
		}
	}
	for _, e := range r.Warnings {
		if r.Policy.Says(e.Message) { // the lines about the policy have it
			continue
		}
		fmt.Fprintf(&b, "warning %s ago: %s\n", view.Duration(s.Now().Sub(e.Last)), options.Printable(e.String()))
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	if err := s.policy(w, r); err != nil {
		return err
	}
	if s.Wide() {
		return nodes(w, r)
	}
	return nil
}

// headline is the state in a word for people: a rollout in which nothing starts now does not roll.
func headline(r *inspect.Report) string {
	switch p := r.Policy; {
	case r.State != inspect.Rolling:
	case p == nil && r.Stopped != "":
		return "stalled"
	case p == nil || p.Enforcement == v1alpha1.EnforcementNone:
	case p.Phase == v1alpha1.PhaseStalled:
		return "stalled"
	case p.Phase == v1alpha1.PhaseSuspended:
		return "suspended"
	case p.Phase == v1alpha1.PhaseWaitingForWindow && p.Next != nil && p.Next.Action == v1alpha1.ActionEndFreeze:
		return "waiting for the end of a freeze"
	case p.Phase == v1alpha1.PhaseWaitingForWindow:
		return "waiting for a window"
	case p.Phase == v1alpha1.PhaseUndoing:
		return "undoing"
	case p.Phase == v1alpha1.PhaseWaitingForApproval:
		return "waiting for an approval"
	case p.StopsBy(policy.Paused):
		return "paused"
	case p.StopsBy(policy.HeldByGroup) && !r.Begun():
		return "waiting for its concurrency group"
	}
	return string(r.State)
}

// nodes lists the nodes, those that are not up to date last.
func nodes(w io.Writer, r *inspect.Report) error {
	rows := [][]string{{"NODE", "READY", "VERDICT", "POD", "REVISION", "STATE", "REASON"}}
	for _, n := range r.Nodes {
		ready := "yes"
		if !n.Ready {
			ready = "no"
		}
		var names, revisions, states []string
		for _, p := range n.Pods {
			names, revisions, states = append(names, p.Name), append(revisions, p.Revision), append(states, p.State)
		}
		rows = append(rows, []string{n.Name, ready, n.Verdict, dash(names), dash(revisions), dash(states), n.Reason})
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return options.Columns(w, rows)
}

func dash(words []string) string {
	if len(words) == 0 {
		return "-"
	}
	return strings.Join(words, ", ")
}
