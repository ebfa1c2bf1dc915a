// SPDX-License-Identifier: Apache-2.0

// Package ota is the verb for operators of sets whose pods are upgraded one by one, when it suits whoever runs the node: DaemonSets of
// apps/v1 with OpenYurt's strategy OTA, and Advanced DaemonSets with the strategy OnDelete. It does through the cluster what the API
// of a node does on the node, with the same answers: it lists pods that have a newer version, deletes the pod that is to be upgraded,
// and asks for images by the condition PodImageReady, which the agent of the node reads.
//
// Rule: what the API of a node refuses is refused here, for the same reasons.
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

// New is the verb.
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

// action is a verb that does something with pods.
type action struct {
	*options.Options
	change.Flags
	all bool
	// do does it with one pod; a refusal is an error.
	do func(ctx context.Context, c *options.Clients, one *candidate) (change.Outcome, error)
	// able is whether --all means the pod.
	able func(one *candidate) bool
	// none is what is said where there is none, waits what is said of those that wait for their images, if that is why they are left out.
	none, waits string
	// after, if there is one, tells what there is to know besides of the pods with which it was done.
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

// run does it with all pods that are meant. A name that finds nothing, or a pod that is named and refused, is an error; the others are done.
func (d *action) run(ctx context.Context, c *options.Clients, args []string) error {
	found, err := scope{d.Options, c, false, d.all}.look(ctx, args)
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
