// SPDX-License-Identifier: Apache-2.0

package approve

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/policies"
)

func newRetry(o *options.Options) *cobra.Command {
	v := &verb{Options: o, decision: v1alpha1.Retry}
	return v.command(&cobra.Command{
		Use:   "retry NAME",
		Short: "Roll out a revision again that has failed",
		Long: "Roll out a revision again that has failed under its policy, or was undone, from the first wave. Correct what made it fail before: pods that still fail\n" +
			"make it fail again, at the latest when failure.nodeDeadline of the policy has passed." + common,
		Example: "  # The registry works again\n  kubectl everynode retry ads/agent --reason 'the registry works again'",
	})
}

// AddUndo adds the flag --to-committed to the command undo: then a rollout policy returns nodes to the committed revision, and the template stays.
func AddUndo(o *options.Options, undo *cobra.Command) *cobra.Command {
	v := &verb{Options: o, decision: v1alpha1.UndoRollout}
	byTemplate, committed := undo.RunE, false
	undo.Args = options.Arguments(1, policies.Argument("NAME")) // without --to-committed, byTemplate refuses a policy
	undo.Use = "undo NAME [--to-revision N | --to-committed]"
	undo.Long = strings.TrimSuffix(undo.Long, "\n\n"+options.ExitText)
	undo.Long += "\n\nWith --to-committed the template stays as it is: the rollout policy of the set returns all nodes to the committed revision, without waves, and rolls\n" +
		"the revision out again only after `" + options.Program + " retry` or a new template. It creates a RolloutApproval for that.\n\n" +
		"For a set with enforcement OnDelete, whose pods another controller creates, the manager changes the template back instead. It may not if it lacks the right, or if\n" +
		"another field manager owns a part of the template: then no further node is updated, and the status of the policy reports UndoRefused or UndoNotPossible.\n\n" +
		"With --to-committed, NAME may also be rolloutpolicy/NAME, for a policy that applies to one daemon set only.\n\n" + options.ExitText
	undo.Example += "\n\n  # Stop a rollout whose template another tool owns, and return to the revision before it\n" +
		"  kubectl everynode undo ads/agent --to-committed --reason 'the agent leaks memory'"
	undo.Flags().BoolVar(&committed, "to-committed", false, "Let the rollout policy return nodes to the committed revision, and keep the template.")
	undo.Flags().StringVar(&v.reason, "reason", "", "Why, for other people, with --to-committed.")
	noFiles(undo, "reason", cobra.NoFileCompletions)
	undo.Flags().StringVar(&v.revision, "revision", "", "With --to-committed: do nothing if the rollout is of another revision than this one by now.")
	noFiles(undo, "revision", cobra.NoFileCompletions)
	undo.RunE = func(cmd *cobra.Command, args []string) error {
		flags := cmd.Flags()
		switch {
		case !committed && flags.Changed("reason"):
			return options.Usagef("--reason belongs to --to-committed: add that, or leave it out")
		case !committed && flags.Changed("revision"):
			return options.Usagef("--revision belongs to --to-committed: add that, or name a number of the history with --to-revision")
		case !committed:
			return byTemplate(cmd, args)
		case flags.Changed("to-revision"):
			return options.Usagef("--to-committed and --to-revision exclude each other: the policy knows the committed revision")
		}
		var err error
		if v.DryRun, err = flags.GetString("dry-run"); err != nil {
			return fmt.Errorf("reading --dry-run: %w", err)
		}
		return v.run(cmd.Context(), args[0])
	}
	return undo
}
