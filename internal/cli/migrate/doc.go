// SPDX-License-Identifier: Apache-2.0

// Package migrate implements the command that converts a DaemonSet of apps/v1 to an Advanced DaemonSet, or back,
// without restarting a pod: the old object is deleted without its pods, and the new one, with the same selector and
// template, adopts them (docs/migration.md).
//
// The direction is always explicit: to an Advanced DaemonSet or, with --back or ads/NAME, to apps/v1. So a repeated
// command finds nothing to do, and does not revert the migration.
//
// Vocabulary: the new object is held, by a pause or by OnDelete, until its controller has found all pods to be up to
// date; then it gets its own update strategy. A record is a ConfigMap with everything that is needed to continue after
// an interruption; it is deleted at the end.
//
// Rule: nothing is deleted before the API server has accepted all following requests as dry runs, and the record is
// written.
package migrate

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"everynode.dev/everynode/internal/cli/change"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/resolver"
)

// verb is one run of the command.
type verb struct {
	*options.Options
	change.Flags
	drop    bool
	back    bool
	timeout time.Duration
}

// defaultTimeout is the default time limit of a step.
const defaultTimeout = 2 * time.Minute

// New returns the command migrate.
func New(o *options.Options) *cobra.Command {
	v := &verb{Options: o}
	c := &cobra.Command{
		Use:   "migrate NAME [--back]",
		Short: "Make a DaemonSet of apps/v1 an Advanced DaemonSet, or back, without restarting a pod",
		Long: "Make a DaemonSet of apps/v1 an Advanced DaemonSet of apps.kruise.io, or an Advanced one a DaemonSet of apps/v1. No pod is restarted:\n" +
			"the old object is deleted without its pods, and the new one adopts them. For a moment no controller manages the pods.\n\n" +
			"Fields that the new kind does not have are named, and the migration is refused; --drop-fields removes them. A set that is being rolled out\n" +
			"is refused too. If the command is interrupted, run it again: the state is kept in a ConfigMap until the end.\n\n" +
			"NAME and daemonset/NAME become an Advanced DaemonSet; with --back, or as ads/NAME, a DaemonSet of apps/v1. A set that is of that kind\n" +
			"already is not changed, so a command that is run twice does nothing the second time.\n\n" +
			"If the object comes from a manifest (Helm, a repository), replace the manifest too, or the old object is created again.\n\n" + options.ExitText,
		Example: "  # What would happen? Everything is checked by the API server, and nothing is changed\n  kubectl everynode migrate daemonset/agent --dry-run\n\n" +
			"  # To the Advanced DaemonSet\n  kubectl everynode migrate daemonset/agent\n\n" +
			"  # And back, without the fields that apps/v1 does not have\n  kubectl everynode migrate agent --back --drop-fields",
		Args: options.Arguments(1, resolver.Argument("NAME")),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := errors.Join(v.Flags.Validate(), options.Timeout(v.timeout)); err != nil {
				return err
			}
			c, err := o.Clients()
			if err != nil {
				return err
			}
			return v.run(cmd.Context(), c, args[0])
		},
		ValidArgsFunction: resolver.Complete(o),
	}
	c.Flags().BoolVar(&v.back, "back", false, "Make it a DaemonSet of apps/v1.")
	c.Flags().BoolVar(&v.drop, "drop-fields", false, "Remove fields that the new kind does not have.")
	c.Flags().DurationVar(&v.timeout, "timeout", defaultTimeout, "How long each step may take.")
	v.Flags.AddDryRun(c)
	return c
}
