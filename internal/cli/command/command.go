// SPDX-License-Identifier: Apache-2.0

// Package command assembles the commands of kubectl everynode. Each command is a package in the same directory; this
// package has the shared flags, the help, and the distinction between wrong usage and other errors.
package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"everynode.dev/everynode/internal/cli/adopt"
	"everynode.dev/everynode/internal/cli/approve"
	"everynode.dev/everynode/internal/cli/dashboard"
	"everynode.dev/everynode/internal/cli/doctor"
	"everynode.dev/everynode/internal/cli/edit"
	"everynode.dev/everynode/internal/cli/explain"
	"everynode.dev/everynode/internal/cli/history"
	"everynode.dev/everynode/internal/cli/images"
	"everynode.dev/everynode/internal/cli/migrate"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/ota"
	"everynode.dev/everynode/internal/cli/plan"
	"everynode.dev/everynode/internal/cli/policies"
	"everynode.dev/everynode/internal/cli/status"
	"everynode.dev/everynode/internal/cli/top"
	"everynode.dev/everynode/internal/cli/version"
)

// verbs returns all commands, in the order of the help.
func verbs(o *options.Options) []*cobra.Command {
	return slices.Concat([]*cobra.Command{
		plan.New(o),
		plan.NewApply(o),
		status.New(o),
		top.New(o),
		dashboard.New(o, Root),
		explain.New(o),
		history.New(o),
		history.NewDiff(o),
		doctor.New(o),
		version.New(o),
		ota.New(o),
		images.New(o),
		migrate.New(o),
		adopt.New(o),
		policies.New(o),
	}, withUndo(o, edit.Commands(o)), approve.Commands(o))
}

// withUndo adds to the command undo what a rollout policy can do.
func withUndo(o *options.Options, all []*cobra.Command) []*cobra.Command {
	for _, c := range all {
		if c.Name() == "undo" {
			approve.AddUndo(o, c)
		}
	}
	return all
}

// newName is the annotation of a deprecated command with its new name.
const newName = "newName"

// renamed returns the commands under their deprecated names: hidden, and with a warning on stderr.
func renamed(o *options.Options) []*cobra.Command {
	earlier := func(name string, c *cobra.Command) *cobra.Command {
		c.Annotations = map[string]string{newName: c.Name()}
		c.Use, c.Hidden = name, true
		return c
	}
	return []*cobra.Command{earlier("take-over", adopt.New(o)), earlier("delete-hook", edit.NewPreDelete(o))}
}

const long = `Plan, follow, control and explain rollouts of daemon sets.

A set is named NAME, daemonset/NAME (apps/v1) or ads/NAME (the Advanced DaemonSet of apps.kruise.io).
Reading verbs work on any cluster with your own rights; they need no manager of Everynode.

` + options.ExitText

const example = `  # What would a new image do, node by node?
  kubectl everynode plan ads/agent --image agent=registry.example/agent:2

  # Follow a rollout
  kubectl everynode status agent -w

  # Why does this node have, lack or keep which pod?
  kubectl everynode explain-node node-17 agent`

// Root returns the program.
func Root(o *options.Options) *cobra.Command {
	root := &cobra.Command{
		Use:         FileName,
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: options.Program},
		Short:       "Plan, follow, control and explain rollouts of daemon sets",
		Long:        long,
		Example:     example,
		Version:     o.Version,
		Args:        cobra.ArbitraryArgs,
		RunE:        unknown,
		// main prints errors, once.
		SilenceUsage: true, SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Name() == cobra.ShellCompRequestCmd || cmd.Name() == cobra.ShellCompNoDescRequestCmd {
				*o.ConfigFlags.Timeout = patience
			}
			for c := cmd; c != nil; c = c.Parent() {
				if name := c.Annotations[newName]; name != "" {
					o.Note("%s is deprecated and will be removed in a later release: use %s", c.Name(), name)
				}
			}
			return o.Validate()
		},
		SuggestionsMinimumDistance: 2,
	}
	root.SetIn(o.In)
	root.SetOut(o.Out)
	root.SetErr(o.ErrOut)
	o.AddFlags(root)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return options.Usagef("%w", err) })
	root.AddCommand(verbs(o)...)
	root.AddCommand(renamed(o)...)
	addCompletion(root)
	addHelp(root)
	for _, verb := range root.Commands() {
		strict(verb)
	}
	return root
}

// completion is the command that cobra adds, with a subcommand for each shell.
const completion = "completion"

// addCompletion adds it immediately, not at execution, so that its behaviour for an unknown shell can be changed: by
// default it prints its help and returns 0, which scripts take for a completion script.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() != completion {
			continue
		}
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			var shells []string
			for _, shell := range cmd.Commands() {
				shells = append(shells, shell.Name())
			}
			return fmt.Errorf("%s knows no shell %q: it knows %s", completion, args[0], strings.Join(shells, ", "))
		}
	}
}

// help is the command that cobra adds. By default it prints the help of the program for an unknown command, and returns
// 0.
const help = "help"

// addHelp adds it immediately, not at execution, so that this can be changed.
func addHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() != help {
			continue
		}
		cmd.Args = func(_ *cobra.Command, args []string) error {
			found, rest, err := root.Find(args)
			switch {
			case err != nil || len(rest) == 0:
				return err //nolint:wrapcheck // it names the word
			case found == root:
				return unknown(root, rest)
			default:
				return fmt.Errorf("%s has no subcommand %q", strings.TrimPrefix(found.CommandPath(), options.Program+" "), rest[0])
			}
		}
	}
}

// patience is the default time that completion waits for a cluster that does not answer; --request-timeout overrides
// it.
const patience = "5s"

// Verbs returns all commands that do something, and their subcommands, for the documentation.
func Verbs() []*cobra.Command {
	root := Root(options.New(genericiooptions.IOStreams{}))
	var all []*cobra.Command
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Runnable() && cmd != root {
			all = append(all, cmd)
		}
		for _, sub := range cmd.Commands() {
			if sub.Name() != completion && sub.Name() != help && !sub.Hidden {
				visit(sub)
			}
		}
	}
	visit(root)
	return all
}

// FileName is the name of the executable, by which kubectl finds it.
const FileName = "kubectl-everynode"

// unknown returns the error for a command line without a known command.
func unknown(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
		return options.Usagef("there is no command %q: did you mean %s?", args[0], strings.Join(like, " or "))
	}
	return options.Usagef("there is no command %q: see %s --help", args[0], options.Program)
}

// strict makes wrong arguments of a command, and of its subcommands, a usage error.
func strict(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(c *cobra.Command, args []string) error {
			err := check(c, args)
			if err == nil || options.Code(err) == options.ExitUsage {
				return err // the error has the remedy
			}
			return options.Usagef("%w: see %s --help", err, c.CommandPath())
		}
	}
	for _, sub := range cmd.Commands() {
		strict(sub)
	}
}
