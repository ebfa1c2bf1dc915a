// SPDX-License-Identifier: Apache-2.0

package edit

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/resolver"
)

func newCanary(o *options.Options) *cobra.Command {
	v, off := &verb{Options: o}, false
	var selector *metav1.LabelSelector
	v.check = func(args []string) (err error) {
		if !off {
			selector, err = parseSelector(args[0])
		}
		return err
	}
	c := v.command(&cobra.Command{
		Use:   "canary NAME SELECTOR|--off",
		Short: "Update only the nodes that match a label selector",
		Long: lines("Update only the nodes that match a label selector. On other nodes the old pod keeps its revision, and a pod that fails there",
			"is recreated from the old revision. With --off all nodes are updated again.",
			"", "It sets spec.updateStrategy.rollingUpdate.selector of an Advanced DaemonSet. A DaemonSet of apps/v1 has no such field."),
		Example: lines("  # Try the new version on the nodes with the label canary=true", "  kubectl everynode canary ads/agent canary=true", "",
			"  # In two zones", "  kubectl everynode canary ads/agent 'topology.kubernetes.io/zone in (a,b)'", "",
			"  # Everywhere", "  kubectl everynode canary ads/agent --off"),
		Args: func(_ *cobra.Command, args []string) error {
			if off && len(args) != 1 || !off && len(args) != 2 {
				return fmt.Errorf("canary needs the name of a set, and then either a selector or --off, but got %q", args)
			}
			return resolver.Argument("NAME").Check(args[0])
		},
	}, func(ctx context.Context, c *options.Clients, set *resolver.Set, _ []string) error {
		if err := requireRolling(set, "update some nodes only"); err != nil {
			return err
		}
		if off {
			done := "canary off"
			if !holds(set) {
				done += ": updates go to all nodes again"
			}
			err := v.patch(ctx, c, step{set, done, func(object *unstructured.Unstructured) error {
				unstructured.RemoveNestedField(object.Object, rolling(fieldSelector)...)
				return nil
			}})
			if err == nil {
				v.warnPaused(set)
				v.warnPartition(set)
			}
			return err
		}
		return v.canary(ctx, c, set, selector)
	})
	c.ValidArgsFunction = resolver.CompleteAdvanced(o)
	c.Flags().BoolVar(&off, "off", false, "Update all nodes again.")
	return c
}

// parseSelector parses a selector that must not be empty.
func parseSelector(text string) (*metav1.LabelSelector, error) {
	parsed, err := options.Selector(text)
	if err != nil {
		return nil, options.Usagef("the selector %q cannot be read: %w (write for example zone=a,disk!=old)", text, err)
	}
	if len(parsed.MatchLabels)+len(parsed.MatchExpressions) == 0 {
		return nil, options.Usagef("the selector is empty, and would match all nodes: write --off to update all")
	}
	return parsed, nil
}

func (v *verb) canary(ctx context.Context, c *options.Clients, set *resolver.Set, parsed *metav1.LabelSelector) error {
	selector, err := runtime.DefaultUnstructuredConverter.ToUnstructured(parsed)
	if err != nil {
		return fmt.Errorf("encoding the selector: %w", err)
	}
	err = v.patch(ctx, c, step{set, "canary on nodes that match " + describe(selector), func(object *unstructured.Unstructured) error {
		return unstructured.SetNestedMap(object.Object, selector, rolling(fieldSelector)...)
	}})
	if err != nil {
		return err
	}
	v.matches(ctx, c, parsed)
	v.warnPaused(set)
	v.warnPartition(set)
	return nil
}

// page is the page size for nodes.
const page = 500

// matches prints how many nodes match. Without the right to list nodes, it prints nothing.
func (v *verb) matches(ctx context.Context, c *options.Clients, parsed *metav1.LabelSelector) {
	selector, err := metav1.LabelSelectorAsSelector(parsed)
	if err != nil {
		return
	}
	count, list := 0, metav1.ListOptions{LabelSelector: selector.String(), Limit: page}
	for {
		nodes, err := c.Kubernetes.CoreV1().Nodes().List(ctx, list)
		if err != nil {
			return
		}
		count += len(nodes.Items)
		if list.Continue = nodes.Continue; list.Continue == "" {
			break
		}
	}
	switch count {
	case 0:
		v.note("no node of the cluster matches: nothing is updated")
	case 1:
		v.note("1 node of the cluster matches")
	default:
		v.note("%d nodes of the cluster match", count)
	}
}

// describe formats a selector for users.
func describe(selector map[string]any) string {
	typed := &metav1.LabelSelector{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(selector, typed); err != nil {
		return fmt.Sprint(selector)
	}
	parsed, err := metav1.LabelSelectorAsSelector(typed)
	if err != nil || parsed.String() == labels.Nothing().String() {
		return fmt.Sprint(selector)
	}
	return parsed.String()
}
