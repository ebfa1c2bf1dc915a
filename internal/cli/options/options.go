// SPDX-License-Identifier: Apache-2.0

// Package options holds what all verbs of kubectl everynode share: the flags by which a cluster is named, clients of it, the ways to
// print, and what the program returns to the shell.
//
// Rule: a verb gets everything that it knows of the world from an Options value (streams, the environment, the time, clients), so that a test
// can hand it in.
package options

import (
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"everynode.dev/everynode/internal/rollout"
)

// FieldManager is who has made the changes of the steering verbs, as metadata.managedFields names it.
const FieldManager = "kubectl-everynode"

// Program is how the program is called by people.
const Program = "kubectl everynode"

// Options are what all verbs share.
type Options struct {
	ConfigFlags *genericclioptions.ConfigFlags
	genericiooptions.IOStreams
	// Output is how to print: one of Outputs.
	Output string
	// Version is that of the program.
	Version string
	// Getenv reads the environment, Now the clock, and After waits.
	Getenv func(string) string
	Now    func() time.Time
	After  func(time.Duration) <-chan time.Time
	// Given, when set, is what Clients returns.
	Given *Clients
}

// New returns Options that read the environment of the process.
func New(streams genericiooptions.IOStreams) *Options {
	flags := genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().WithDiscoveryQPS(50).WithDiscoveryBurst(300)
	return &Options{ConfigFlags: flags, IOStreams: streams, Output: OutputTable, Version: "unknown", Getenv: os.Getenv, Now: time.Now, After: time.After}
}

// AddFlags adds the flags that all verbs have to the root command.
func (o *Options) AddFlags(cmd *cobra.Command) {
	o.ConfigFlags.AddFlags(cmd.PersistentFlags())
	cmd.PersistentFlags().StringVarP(&o.Output, "output", "o", OutputTable, "How to print: table, wide, json or yaml.")
	o.addCompletions(cmd)
}

// SameNamespace refuses something of a namespace if --namespace names another one, as kubectl does.
func (o *Options) SameNamespace(what, namespace string) error {
	if given := *o.ConfigFlags.Namespace; given != "" && given != namespace {
		return Usagef("%s is for namespace %s, and --namespace names %s: leave --namespace out, or write -n %s", what, namespace, given, namespace)
	}
	return nil
}

// Time is the present as the core counts it.
func (o *Options) Time() rollout.Time { return rollout.Time(o.Now().UnixNano()) }

// Terminal is whether what is printed goes to a terminal that can move its cursor.
func (o *Options) Terminal() bool {
	file, ok := o.Out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd())) && o.Getenv("TERM") != "dumb"
}

// Colour is whether colours are wanted where the output goes.
func (o *Options) Colour() bool { return o.Terminal() && o.Getenv("NO_COLOR") == "" }
