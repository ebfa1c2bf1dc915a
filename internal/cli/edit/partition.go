// SPDX-License-Identifier: Apache-2.0

package edit

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/resolver"
)

func newPartition(o *options.Options) *cobra.Command {
	v := &verb{Options: o}
	var partition any
	v.check = func(args []string) (err error) {
		partition, err = parsePartition(args[0])
		return err
	}
	c := v.command(&cobra.Command{
		Use:   "partition NAME N|PERCENT%",
		Short: "Update all but N nodes",
		Long: lines("Update all but N nodes, which keep the old pod. A percentage is of the nodes that should run a pod, rounded down.",
			"With 0 all nodes are updated. A higher number does not roll nodes back.",
			"", "It sets spec.updateStrategy.rollingUpdate.partition of an Advanced DaemonSet. A DaemonSet of apps/v1 has no such field."),
		Example: lines("  # Update a tenth of the nodes", "  kubectl everynode partition ads/agent 90%", "",
			"  # Update the remaining nodes", "  kubectl everynode partition ads/agent 0"),
		Args: options.Arguments(2, resolver.Argument("NAME"), options.Argument{Word: "N|PERCENT%", What: "the number of nodes that keep the old pod"}),
	}, func(ctx context.Context, c *options.Clients, set *resolver.Set, _ []string) error {
		if err := requireRolling(set, "hold back a part of the nodes"); err != nil {
			return err
		}
		err := v.patch(ctx, c, step{set, fmt.Sprint("partition set to ", partition), func(object *unstructured.Unstructured) error {
			return unstructured.SetNestedField(object.Object, partition, rolling(fieldPartition)...)
		}})
		if err == nil {
			v.warnPaused(set)
			v.warnCanary(set)
		}
		return err
	})
	c.ValidArgsFunction = resolver.CompleteAdvanced(o)
	c.SetFlagErrorFunc(negative)
	return c
}

// negative returns a better error for a number below 0, which looks like a flag.
func negative(_ *cobra.Command, err error) error {
	if unknown := (*pflag.NotExistError)(nil); errors.As(err, &unknown) {
		if text := unknown.GetSpecifiedShortnames(); text != "" && text[0] >= '0' && text[0] <= '9' {
			_, err := parsePartition("-" + text)
			return err
		}
	}
	return options.Usagef("%w", err)
}

// parsePartition parses a number of nodes or a percentage, as in the API.
func parsePartition(text string) (any, error) {
	if partition, ok := options.Quantity(text); ok {
		return partition, nil
	}
	if options.TooLarge(text) {
		return nil, options.Usagef("the partition %s is too large: %s", text, options.Largest)
	}
	return nil, options.Usagef("the partition %q is neither a number of nodes from 0 nor a percentage from 0%% to 100%%: write 10 or 90%%", text)
}
