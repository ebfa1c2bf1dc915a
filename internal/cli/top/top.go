// SPDX-License-Identifier: Apache-2.0

// Package top implements the command that lists all DaemonSets of both kinds, those with a rollout in progress first.
package top

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/resolver"
	"everynode.dev/everynode/internal/cli/view"
	"everynode.dev/everynode/internal/rollout"
)

// Row is one set.
type Row struct {
	Namespace string        `json:"namespace"`
	Set       string        `json:"set"`
	State     inspect.State `json:"state"`
	Why       string        `json:"why"`
	Revision  string        `json:"revision"`
	// Updated and Available are as in inspect.Report.
	Desired   int `json:"desired"`
	Updated   int `json:"updated"`
	Available int `json:"available"`
	// Done is the number of nodes that are updated and available.
	Done        int  `json:"updatedAndAvailable"`
	BudgetUsed  int  `json:"budgetUsed"`
	BudgetLimit int  `json:"budgetLimit"`
	SecondsLeft *int `json:"secondsLeft,omitempty"`
	// SecondsStalled is how long there has been no progress, if that is long for this update.
	SecondsStalled int `json:"secondsWithoutProgress,omitempty"`
	// Waits is the most urgent verdict, or the one with the most waiting nodes, and their number.
	Waits string `json:"waits,omitempty"`
	// WaitsCause is why their pods do not start, or that the nodes are not ready; empty for neither.
	WaitsCause string `json:"waitsCause,omitempty"`

	pace view.Pace
}

const long = `List the daemon sets of both kinds: first those that are refused, then those with a rollout in progress. Each line shows how many nodes
are updated and available, how much of the budget is used, the remaining time, and what the rollout waits for.

A set is finished when every node that its rollout may reach has an available pod of the newest revision.

LEFT is an estimate, or the time without progress, or who must let the rollout continue. WAITS is one verdict and the number of nodes that
have it: of the nodes that are blocked, or whose new pod does not start, with the cause; if there are none, of those whose pods are
stopping or starting; if there are none either, of those that are queued. Nodes that are not ready count only if no other node waits.

` + options.ExitText

const example = `  # The sets of a namespace
  kubectl everynode top -n kube-system

  # All rollouts of the cluster that are in flight
  kubectl everynode top -A --in-flight`

// New returns the command top.
func New(o *options.Options) *cobra.Command {
	everywhere, inFlight := false, false
	cmd := &cobra.Command{
		Use:     "top",
		Short:   "List all sets and the rollouts in progress",
		Long:    long,
		Example: example,
		Args:    options.Arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			clients, err := o.Clients()
			if err != nil {
				return err
			}
			rows, err := read(cmd.Context(), o, clients, everywhere)
			if err != nil {
				return err
			}
			none := "there are no daemon sets"
			if inFlight && len(rows) > 0 {
				rows = slices.DeleteFunc(rows, func(r Row) bool { return r.State == inspect.Finished })
				none = "no rollout is in progress"
			}
			where := " in namespace " + clients.Namespace
			if everywhere {
				where = " in any namespace"
			}
			return o.Print(rows, func(w io.Writer) error { return table(w, o, rows, none+where) })
		},
	}
	cmd.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "List the sets of all namespaces.")
	cmd.Flags().BoolVar(&inFlight, "in-flight", false, "Omit sets whose rollout has finished.")
	return cmd
}

func read(ctx context.Context, o *options.Options, clients *options.Clients, everywhere bool) ([]Row, error) {
	sets, err := resolver.Readable(ctx, o, clients, everywhere)
	if err != nil {
		return nil, err
	}
	rows := []Row{}
	if len(sets) == 0 {
		return rows, nil
	}
	cluster, err := inspect.All(ctx, o, clients, sets)
	if err != nil {
		return nil, err
	}
	for i := range cluster.Evaluations {
		m := &cluster.Evaluations[i]
		rows = append(rows, RowOf(m, m.Outcome()))
	}
	slices.SortStableFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Set, b.Set))
	})
	return rows, nil
}

// rank sorts by urgency.
func rank(r Row) int {
	return slices.Index([]inspect.State{inspect.Failed, inspect.Rolling, inspect.Finished}, r.State)
}

// RowOf returns the row of a set whose rollout has an outcome.
func RowOf(m *inspect.Evaluation, outcome inspect.Outcome) Row {
	pace := m.Governance.Report().Pace(view.PastPace(m.Snapshot, m.Plan, m.Began()))
	model := view.New(view.Input{Title: m.Set.Title(), Snapshot: m.Snapshot, Plan: m.Plan, Pace: pace})
	r := Row{
		Namespace: m.Set.Namespace(), Set: m.Set.String(), State: outcome.State, Why: outcome.Why, Revision: model.Target,
		Desired: model.Status.Desired, Updated: model.Status.Updated, Available: model.Status.Available, Done: model.Done,
		BudgetUsed: m.Plan.Budget.Used(), BudgetLimit: m.Plan.Budget.Limit, pace: pace,
	}
	if pace.Known {
		left := int(pace.Left.Seconds())
		r.SecondsLeft = &left
	}
	if outcome.State == inspect.Rolling {
		r.Waits, r.WaitsCause = waits(m)
		r.SecondsStalled = int(pace.Stalled.Seconds())
	}
	return r
}

// waits returns what blocks the rollout, or what is in progress, or what most nodes wait for, and why pods do not start. Deleted nodes are ignored, and nodes that are not
// ready count only if there are no others, unless they wait for their turn.
func waits(m *inspect.Evaluation) (what, cause string) {
	counts := map[wait]int{}
	for i, v := range m.Plan.Verdicts {
		n := &m.Snapshot.Nodes[i]
		if n.Gone || !v.Kind.Group().Waiting() {
			continue
		}
		w := wait{kind: v.Kind, away: !n.Ready && v.Kind.Group() != rollout.GroupQueued}
		if n.Ready {
			w.cause = inspect.StuckBy(n, v.Kind, m.Snapshot.Set.Update)
		}
		counts[w]++
	}
	if len(counts) == 0 {
		return "", ""
	}
	all := slices.SortedFunc(maps.Keys(counts), func(a, b wait) int {
		return cmp.Or(cmp.Compare(b.rank(), a.rank()), cmp.Compare(counts[b], counts[a]), cmp.Compare(a.kind, b.kind), cmp.Compare(a.cause, b.cause))
	})
	most := all[0]
	if cause = most.cause; most.away {
		cause = "not ready"
	}
	return fmt.Sprintf("%s %d", most.kind, counts[most]), cause
}

// wait is what nodes wait for.
type wait struct {
	kind rollout.VerdictKind
	// cause is why their pods do not start; empty if they may.
	cause string
	// away reports whether the nodes are not ready.
	away bool
}

// rank sorts by urgency.
func (w wait) rank() int {
	switch {
	case w.away:
		return -1
	case w.cause != "":
		return int(rollout.GroupHeld)
	default:
		return int(w.kind.Group())
	}
}

// table prints rows; none is the text if there are none.
func table(w io.Writer, o *options.Options, rows []Row, none string) error {
	if len(rows) == 0 {
		_, err := fmt.Fprintln(w, none)
		return err
	}
	lines := [][]string{{"NAMESPACE", "SET", "STATE", "UPDATED", "AVAILABLE", "BUDGET", "LEFT", "WAITS"}}
	if o.Wide() {
		lines[0] = append(lines[0], "REVISION", "WHY")
	}
	for i := range rows {
		r := &rows[i]
		line := []string{
			r.Namespace, r.Set, string(r.State), fmt.Sprintf("%d/%d", r.Updated, r.Desired), fmt.Sprintf("%d/%d", r.Available, r.Desired),
			fmt.Sprintf("%d/%d", r.BudgetUsed, r.BudgetLimit), left(r), dash(r.waiting()),
		}
		if o.Wide() {
			line = append(line, r.Revision, r.Why)
		}
		lines = append(lines, line)
	}
	return options.Columns(w, lines)
}

// waiting is what the nodes wait for, with the cause.
func (r *Row) waiting() string {
	if r.WaitsCause == "" {
		return r.Waits
	}
	return r.Waits + " (" + options.Printable(r.WaitsCause) + ")"
}

func left(r *Row) string {
	switch {
	case r.State != inspect.Rolling:
		return "-"
	case r.pace.Owners:
		return "up to owners"
	case r.pace.Paused:
		return "paused"
	case r.pace.OnDelete:
		return "on delete"
	case r.pace.Policy:
		return "by policy"
	case r.pace.Known:
		return "about " + view.Duration(r.pace.Left)
	case r.pace.Stalled > 0:
		return "still for " + view.Duration(r.pace.Stalled)
	default:
		return "-"
	}
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
