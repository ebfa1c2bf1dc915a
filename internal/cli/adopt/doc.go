// SPDX-License-Identifier: Apache-2.0

// Package adopt implements the command that replaces OpenKruise's CRDs with Everynode's, which have the same
// names, and restores them. Its subcommand openyurt makes yurt-manager leave the update of DaemonSets to Everynode.
//
// No object or pod is deleted: CRDs are changed in place. What is replaced or removed is stored in ConfigMaps in
// Everynode's namespace first. When Everynode's manager converts between the versions, all objects are rewritten in the
// version that Everynode stores, and the CRD stops listing the older one. In yurt-manager's Deployment one flag
// is changed; its old value is stored in an annotation.
//
// Vocabulary: a CRD is a CustomResourceDefinition; a foreign one has no label of Everynode's.
//
// Rule: nothing is done while OpenKruise's manager is active, and nothing is restored while Everynode's manager is
// active.
package adopt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"everynode.dev/everynode/internal/cli/change"
	"everynode.dev/everynode/internal/cli/options"
)

// verb is one run of the command.
type verb struct {
	*options.Options
	change.Flags
	back    bool
	timeout time.Duration
	// steps are the finished steps, for machine-readable output.
	steps []Step
}

// Step is one step, for machine-readable output.
type Step struct {
	// Step is what was done, or would be done.
	Step   string `json:"step"`
	DryRun bool   `json:"dryRun,omitempty"`
}

// defaultTimeout is the default time limit of the wait for Everynode's manager.
const defaultTimeout = 2 * time.Minute

// New returns the command adopt.
func New(o *options.Options) *cobra.Command {
	v := &verb{Options: o}
	c := &cobra.Command{
		Use:   "adopt",
		Short: "Replace OpenKruise's CRDs with Everynode's, or restore them; with openyurt, the same for yurt-manager",
		Long: "Replace OpenKruise's CRDs of DaemonSet, ImagePullJob and NodeImage of apps.kruise.io with Everynode's. No object is\n" +
			"deleted and no pod is restarted. Stop OpenKruise's manager first. From then on, none of its other workloads is reconciled.\n\n" +
			"What is replaced is kept in ConfigMaps in Everynode's namespace. So are OpenKruise's webhooks, which would refuse every write\n" +
			"without their manager. --back restores all of it; stop Everynode's manager first.\n\n" +
			"At the end all objects are rewritten in the version that Everynode stores. Its manager must run for that. If the command is\n" +
			"interrupted, run it again. -o json (or yaml) prints a list of the steps at the end.\n\n" + options.ExitText,
		Example: "  # What would happen?\n  kubectl everynode adopt --dry-run\n\n" +
			"  # Stop OpenKruise, then adopt\n  kubectl -n kruise-system scale deployment kruise-controller-manager --replicas=0\n  kubectl everynode adopt\n\n" +
			"  # The way back\n  kubectl everynode adopt --back",
		Args: options.Arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(v.Flags.Validate(), options.Timeout(v.timeout)); err != nil {
				return err
			}
			c, err := o.Clients()
			if err != nil {
				return err
			}
			way := v.adopt
			if v.back {
				way = v.undo
			}
			return v.explain(way(cmd.Context(), c))
		},
	}
	c.Flags().BoolVar(&v.back, "back", false, "Restore OpenKruise's CRDs and webhooks.")
	c.Flags().DurationVar(&v.timeout, "timeout", defaultTimeout, "How long to wait for Everynode's manager.")
	v.Flags.AddDryRun(c)
	c.AddCommand(newOpenYurt(o))
	return c
}

// printStep prints a step. For programs, steps are printed at the end.
func (v *verb) printStep(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if v.ForMachines() {
		v.steps = append(v.steps, Step{Step: text, DryRun: v.Dry()})
		return
	}
	// An error while printing does not undo the step.
	_, _ = fmt.Fprintln(v.Out, options.Printable(text+v.Suffix()))
}

// hint prints additional information.
func (v *verb) hint(format string, args ...any) {
	if v.ForMachines() {
		change.Note(v.Options, "%s%s", fmt.Sprintf(format, args...), v.Suffix())
		return
	}
	v.printStep(format, args...)
}

// explain prints the steps for programs, also after an error.
func (v *verb) explain(err error) error {
	if !v.ForMachines() || err != nil && len(v.steps) == 0 {
		return err
	}
	return errors.Join(err, v.Print(append([]Step{}, v.steps...), nil))
}

// sent reports whether requests are sent.
func (v *verb) sent() bool { return v.DryRun != change.DryRunClient }

// do executes a step and prints it.
func (v *verb) do(ctx context.Context, done string, write func(context.Context) error) error {
	if v.sent() {
		if err := write(ctx); err != nil {
			return err
		}
	}
	v.printStep("%s", done)
	return nil
}
