// SPDX-License-Identifier: Apache-2.0

// Package explain implements the command that explains why a node has, lacks or keeps a pod of a DaemonSet: with the
// rule and the values to which it was applied.
package explain

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/cli/installed"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/podselector"
	"everynode.dev/everynode/internal/cli/resolver"
	"everynode.dev/everynode/internal/placement"
	"everynode.dev/everynode/internal/rollout"
)

const long = `Explain why a node has, lacks or keeps a pod of a daemon set: whether a pod must run there, and by which rule of the template; the
verdict of the node with its values; how the budget of the update is used; and the pods on the node with revision and state.

It shows what Everynode would decide now, read with your own rights. Without SET it lists all sets of the namespace, or with -A
those of all namespaces.

` + options.ExitText

const example = `  # Why does this node not have the new pod?
  kubectl everynode explain-node node-17 agent

  # What do all sets do on this node?
  kubectl everynode explain-node node-17 -A`

// New returns the command explain-node.
func New(o *options.Options) *cobra.Command {
	everywhere := false
	cmd := &cobra.Command{
		Use:               "explain-node NODE [SET]",
		Short:             "Explain why a node has, lacks or keeps a pod",
		Long:              long,
		Example:           example,
		Args:              options.Arguments(1, options.Argument{Word: "NODE", What: "the name of a node"}, resolver.Argument("SET")),
		ValidArgsFunction: complete(o),
		RunE: func(cmd *cobra.Command, args []string) error {
			node, isNode := strings.CutPrefix(args[0], "node/")
			switch {
			case node == "" || !isNode && strings.Contains(node, "/"):
				return options.Usagef("%q does not name a node: write NODE or node/NODE", args[0])
			case len(args) == 2 && everywhere:
				return options.Usagef("--all-namespaces lists all sets: leave %s out, or the flag", args[1])
			case len(args) == 2:
				return one(cmd.Context(), o, node, args[1])
			default:
				return all(cmd.Context(), o, node, everywhere)
			}
		},
	}
	cmd.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "List the sets of all namespaces.")
	return cmd
}

func complete(o *options.Options) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		switch len(args) {
		case 0:
			return podselector.Nodes(cmd, o), cobra.ShellCompDirectiveNoFileComp
		case 1:
			return resolver.Names(cmd, o), cobra.ShellCompDirectiveNoFileComp
		default:
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
	}
}

// one explains one set on the node.
func one(ctx context.Context, o *options.Options, node, arg string) error {
	clients, err := o.Clients()
	if err != nil {
		return err
	}
	set, err := resolver.FindToRead(ctx, o, clients, arg)
	if err != nil {
		return err
	}
	cluster, err := inspect.All(ctx, o, clients, []*resolver.Set{set})
	if err != nil {
		return err
	}
	m := &cluster.Evaluations[0]
	at, object, err := find(cluster, m, node)
	if err != nil {
		return err
	}
	s := subject{o: o, m: m, at: at, node: object, pulls: inspect.AwaitImages(ctx, clients, m)(node)}
	e := s.explain()
	e.Warnings = inspect.Warnings(ctx, o, clients, inspect.About{
		Set: set, Node: node, Acting: m.Plan.Verdicts[at].Kind.Group() == rollout.GroupActing, Policy: m.Governance.Report(),
	})
	if text := installed.Unread(ctx, clients.Kubernetes, set.Object); text != "" {
		o.Note("%s", text)
	}
	s.ask(ctx, clients, &e)
	return o.Print(e, func(w io.Writer) error { return table(w, o, &e) })
}

// find returns the index of the node in the snapshot, and its object, which is nil if the node was deleted.
func find(cluster *inspect.Cluster, m *inspect.Evaluation, name string) (int, *corev1.Node, error) {
	at := slices.IndexFunc(m.Nodes(), func(n string) bool { return n == name })
	if at < 0 {
		return 0, nil, unknown(name, m.Set.String())
	}
	i, found := slices.BinarySearchFunc(cluster.Nodes, name, func(n corev1.Node, name string) int { return strings.Compare(n.Name, name) })
	if !found {
		return at, nil, nil
	}
	return at, &cluster.Nodes[i], nil
}

// unknown returns the error for an unknown node.
func unknown(node, sets string) error {
	return fmt.Errorf("there is no node %s, and no pod of %s names it: see kubectl get nodes", node, sets)
}

// Line is one set on the node, for machine-readable output.
type Line struct {
	Namespace string `json:"namespace"`
	Set       string `json:"set"`
	inspect.NodeReport
}

// all lists what every set does on the node.
func all(ctx context.Context, o *options.Options, node string, everywhere bool) error {
	clients, err := o.Clients()
	if err != nil {
		return err
	}
	_, err = clients.Kubernetes.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	gone := apierrors.IsNotFound(err)
	if err != nil && !gone {
		return options.Explain(err, options.Request{Verb: "get", Resource: corev1.Resource("nodes"), Name: node})
	}
	lines, err := linesOf(ctx, place{o, clients, everywhere}, node)
	switch {
	case err != nil:
		return err
	case gone && len(lines) == 0 && everywhere:
		return unknown(node, "a daemon set of any namespace")
	case gone && len(lines) == 0:
		return unknown(node, "a daemon set of namespace "+clients.Namespace)
	}
	return o.Print(lines, func(w io.Writer) error { return tableOfAll(w, lines) })
}

// place defines where sets are searched.
type place struct {
	*options.Options
	clients    *options.Clients
	everywhere bool
}

// linesOf returns all sets with this node in their snapshot; a deleted node is in the snapshot of sets that have pods
// there.
func linesOf(ctx context.Context, p place, node string) ([]Line, error) {
	sets, err := resolver.Readable(ctx, p.Options, p.clients, p.everywhere)
	lines := []Line{}
	if err != nil || len(sets) == 0 {
		return lines, err
	}
	cluster, err := inspect.All(ctx, p.Options, p.clients, sets)
	if err != nil {
		return nil, err
	}
	for i := range cluster.Evaluations {
		m := &cluster.Evaluations[i]
		if at := slices.Index(m.Nodes(), node); at >= 0 {
			lines = append(lines, Line{m.Set.Namespace(), m.Set.String(), inspect.NodeOf(&m.Snapshot, &m.Plan, at)})
		}
	}
	return lines, nil
}

func tableOfAll(w io.Writer, lines []Line) error {
	if len(lines) == 0 {
		_, err := fmt.Fprintln(w, "no daemon sets")
		return err
	}
	rows := [][]string{{"NAMESPACE", "SET", "VERDICT", "POD", "REVISION", "STATE", "REASON"}}
	for i := range lines {
		l := &lines[i]
		pod, revision, state := "-", "-", "-"
		if n := len(l.Pods); n > 0 {
			pod, revision, state = l.Pods[0].Name, l.Pods[0].Revision, l.Pods[0].State
			if n > 1 {
				pod += fmt.Sprintf(" and %d more", n-1)
			}
		}
		rows = append(rows, []string{l.Namespace, l.Set, l.Verdict, pod, revision, state, l.Reason})
	}
	return options.Columns(w, rows)
}

// facts converts a node for placement.
func facts(n *corev1.Node) placement.Node {
	return placement.Node{Name: n.Name, Labels: n.Labels, Taints: n.Spec.Taints}
}
