// SPDX-License-Identifier: Apache-2.0

// Package options has what all commands of kubectl everynode share: the flags that select a cluster, its clients,
// output formats, and exit codes.
//
// Rule: a command gets its whole environment from an Options value (streams, environment variables, clock, clients), so
// that tests can replace it.
package options

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"everynode.dev/everynode/internal/rollout"
)

// FieldManager is the field manager of all changes in metadata.managedFields.
const FieldManager = "kubectl-everynode"

// Program is how users call the program.
const Program = "kubectl everynode"

// Options are shared by all commands.
type Options struct {
	ConfigFlags *genericclioptions.ConfigFlags
	genericiooptions.IOStreams
	// Output is the output format: one of Outputs.
	Output string
	// Version is the version of the program.
	Version string
	// Getenv reads the environment, Now the clock, and After waits.
	Getenv func(string) string
	Now    func() time.Time
	After  func(time.Duration) <-chan time.Time
	// InName is what In is called in messages.
	InName string
	// Given, if set, is returned by Clients.
	Given *Clients
	// Exact, if not nil, receives the flags with which the command does the same again, whatever changes meanwhile.
	Exact map[string]string
	// Confirmed has what a trial has put into Exact for a command that has no flag for it: the command fails if it would change something else now.
	Confirmed map[string]string
}

// Exactly adds a flag to Exact.
func (o *Options) Exactly(flag, value string) {
	if o.Exact != nil && value != "" {
		o.Exact[flag] = value
	}
}

// ObjectsFlag is the key in Exact of the objects that a command changes.
const ObjectsFlag = "objects"

// Changes records the objects that a command is going to change, and returns an error if they are not those that were confirmed.
func (o *Options) Changes(objects ...string) error {
	all := strings.Join(objects, ", ")
	o.Exactly(ObjectsFlag, all)
	if shown, has := o.Confirmed[ObjectsFlag]; has && shown != all {
		return fmt.Errorf("nothing has been changed: this would change %s, and what was shown changes %s: try it again, and confirm what is shown then", all, shown)
	}
	return nil
}

// New returns Options that read the environment of the process.
func New(streams genericiooptions.IOStreams) *Options {
	flags := genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().WithDiscoveryQPS(50).WithDiscoveryBurst(300)
	return &Options{ConfigFlags: flags, IOStreams: streams, InName: "the standard input", Output: OutputTable, Version: "unknown", Getenv: os.Getenv, Now: time.Now, After: time.After}
}

// AddFlags adds the common flags to the root command.
func (o *Options) AddFlags(cmd *cobra.Command) {
	o.ConfigFlags.AddFlags(cmd.PersistentFlags())
	cmd.PersistentFlags().StringVarP(&o.Output, "output", "o", OutputTable, "How to print: table, wide, json or yaml.")
	o.addCompletions(cmd)
}

// SameNamespace returns an error if --namespace differs from the namespace of an object, as kubectl does.
func (o *Options) SameNamespace(what, namespace string) error {
	if given := *o.ConfigFlags.Namespace; given != "" && given != namespace {
		return Usagef("%s is for namespace %s, and --namespace names %s: leave --namespace out, or write -n %s", what, namespace, given, namespace)
	}
	return nil
}

// Time returns the current time for the core.
func (o *Options) Time() rollout.Time { return rollout.Time(o.Now().UnixNano()) }

// Terminal reports whether the output is a terminal that can move its cursor.
func (o *Options) Terminal() bool {
	file, ok := o.Out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd())) && o.Getenv("TERM") != "dumb"
}

// Colour reports whether the output has colours.
func (o *Options) Colour() bool { return o.Terminal() && o.Getenv("NO_COLOR") == "" }
