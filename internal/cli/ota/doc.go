// SPDX-License-Identifier: Apache-2.0

// Package ota implements the command for operators of sets whose pods are upgraded one by one, when convenient for the
// owner of the node: DaemonSets of apps/v1 with OpenYurt's strategy OTA, and Advanced DaemonSets with the strategy
// OnDelete. It does through the API server what the API of a node does on the node, with the same results: it lists
// pods that have a newer version, deletes a pod to upgrade it, and requests images with the condition PodImageReady,
// which the agent of the node reads.
//
// Rule: this command refuses what the API of a node refuses, for the same reasons.
package ota

import (
	"cmp"
	"context"
	"errors"

	"github.com/spf13/cobra"

	"everynode.dev/everynode/internal/cli/change"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/podselector"
	"everynode.dev/everynode/internal/cli/resolver"
	"everynode.dev/everynode/internal/cli/view"
)

// New returns the command ota.
func New(o *options.Options) *cobra.Command {
	c := &cobra.Command{
		Use:   "ota",
		Short: "Show and upgrade pods that are upgraded one by one",
		Long: "Show and upgrade pods that are upgraded one by one, when convenient for the owner of the node: those of DaemonSets with OpenYurt's strategy\n" +
			"OTA, and of Advanced DaemonSets with the strategy OnDelete. This is for operators of the cluster; the owner of a node uses\n" +
			"the API of the node, which does the same.\n\n" + options.ExitText,
		Example: "  # Which pods have a newer version?\n  kubectl everynode ota list\n\n" +
			"  # Pull the images of the newer version first, on one node\n  kubectl everynode ota pull node-0002\n\n" +
			"  # Upgrade the pods of that node\n  kubectl everynode ota upgrade node-0002",
		Args: options.Arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(newList(o), newUpgrade(o), newPull(o))
	return c
}

// action is a subcommand that acts on pods.
type action struct {
	*options.Options
	change.Flags
	all bool
	// do acts on one pod; a refusal is an error.
	do func(ctx context.Context, c *options.Clients, one *candidate) (change.Outcome, error)
	// able reports whether --all includes the pod.
	able func(one *candidate) bool
	// none is the message if there is no such pod, waits the message if pods are skipped because they wait for their
	// images.
	none, waits string
	// after, if not nil, prints additional information about the pods.
	after func(ctx context.Context, c *options.Clients, done []*candidate)
}

func (d *action) command(c *cobra.Command) *cobra.Command {
	c.Long += "\n\n" + options.ExitText
	c.Args = func(_ *cobra.Command, args []string) error {
		if !d.all && len(args) == 0 {
			return errors.New("name nodes or pods, or use --all")
		}
		return podselector.NotBoth(d.all, args)
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := d.Flags.Validate(); err != nil {
			return err
		}
		clients, err := d.Clients()
		if err != nil {
			return err
		}
		return d.run(cmd.Context(), clients, args)
	}
	c.ValidArgsFunction = podselector.Complete(d.Options, false)
	c.Flags().BoolVar(&d.all, "all", false, "All pods for which it can be done, at once.")
	d.Flags.AddDryRun(c)
	return c
}

// run acts on all selected pods. A name without a pod, or a named pod that is refused, is an error; the action is still
// done for the others.
func (d *action) run(ctx context.Context, c *options.Clients, args []string) error {
	found, err := scope{d.Options, c, false, d.all}.find(ctx, args)
	if err == nil && found.words.Bare != "" {
		_, err = resolver.FindToChange(ctx, c, found.words.Bare)
	}
	if err != nil {
		return err
	}
	if found.words.Empty() && !d.all {
		return options.Usagef("name nodes or pods, or use --all for all pods of the set")
	}
	if err := cmp.Or(found.unknown(), found.byController()); err != nil {
		return err
	}
	var outcomes []change.Outcome
	var errs []error
	var done []*candidate
	var waiting []string
	for i := range found.all {
		one := &found.all[i]
		if found.skipped(one) || found.words.Empty() && !d.able(one) {
			if one.awaited() {
				waiting = append(waiting, one.pod.Name)
			}
			continue
		}
		outcome, err := d.do(ctx, c, one)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		outcomes, done = append(outcomes, outcome), append(done, one)
	}
	left := d.waits != "" && len(waiting) > 0
	if left {
		change.Note(d.Options, "%s: %s", d.waits, view.List(waiting, maxNames))
	}
	if len(outcomes)+len(errs) == 0 {
		if !left {
			change.Note(d.Options, "%s", d.none)
		}
		return change.Report(d.Options, d.Flags)
	}
	if len(outcomes) > 0 {
		errs = append(errs, change.Report(d.Options, d.Flags, outcomes...))
		if d.after != nil {
			d.after(ctx, c, done)
		}
	}
	return errors.Join(errs...)
}
