// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line of localplane: one file per command, each of which calls package localplane and
// prints the result. Exit codes: 0 done, 1 failed, 2 wrong usage.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"everynode.dev/everynode/localplane"
)

const (
	exitFailed = 1
	exitUsage  = 2
)

// app is shared by all commands.
type app struct {
	dir string
	out io.Writer
}

// Main runs the command and returns the exit code.
func Main(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP) //nolint:forbidigo // this is the main of localplane
	defer stop()
	endureClosedPipe()
	// Kubernetes registers its own flags in every program that links it.
	pflag.CommandLine = pflag.NewFlagSet(os.Args[0], pflag.ContinueOnError)
	root := New(os.Stdout)
	root.SetArgs(args)
	if err := root.ExecuteContext(ctx); err != nil {
		var command *exec.ExitError
		if errors.As(err, &command) { // that of `node exec`, which has printed its error
			return command.ExitCode()
		}
		fmt.Fprintf(os.Stderr, "localplane: %v\n", err)
		return exitCode(err)
	}
	return 0
}

// endureClosedPipe makes a write to a closed pipe (`localplane up | head`) return an error; by default the signal would
// end this process before it has stopped what it started. The signal is handled and not ignored, because child
// processes would inherit an ignored signal.
func endureClosedPipe() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
}

func exitCode(err error) int {
	var usage *localplane.UsageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailed
}

// New returns the root command, with its output.
func New(out io.Writer) *cobra.Command {
	a := &app{out: out}
	root := &cobra.Command{
		Use:   "localplane",
		Short: "A real Kubernetes control plane on this machine, with simulated or real nodes and Everynode on it",
		Long: `localplane runs etcd, kube-apiserver, kube-controller-manager and kube-scheduler of Kubernetes ` + localplane.KubernetesVersion + `
on this machine, each as a process of its own, with simulated nodes, real nodes (up --real-nodes) and Everynode's manager.
Where $` + localplane.EnvKubernetes + ` names a directory with the last three of another version, it runs those.

It listens on loopback only; real nodes live in network namespaces of their own. Its state stays in its directory when it stops.`,
		Version:       localplane.KubernetesVersion,
		SilenceUsage:  true,
		SilenceErrors: true,
		// Flags before a subcommand are parsed before the subcommand gets its own flags: kubectl reads none of ours.
		TraverseChildren: true,
		Args:             cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return &localplane.UsageError{Message: fmt.Sprintf("unknown verb %q (see `localplane --help`)", args[0])}
		},
	}
	root.SetVersionTemplate("localplane of Kubernetes {{.Version}}\n")
	root.SetOut(out)
	root.PersistentFlags().StringVar(&a.dir, "dir", localplane.DefaultDir, "directory of the plane")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &localplane.UsageError{Message: fmt.Sprintf("%v (see `%s --help`)", err, cmd.CommandPath())}
	})
	root.AddCommand(a.upCommand(), a.downCommand(), a.statusCommand(), a.nodesCommand(), a.nodeCommand(), a.componentCommand(), a.kubectlCommand(), a.demoCommand())
	for _, cmd := range root.Commands() {
		wrapArgs(cmd)
	}
	return root
}

// wrapArgs makes a wrong number of arguments a usage error, for the command and its subcommands.
func wrapArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return &localplane.UsageError{Message: fmt.Sprintf("%s: %v (see `%s --help`)", verb(cmd), err, cmd.CommandPath())}
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		wrapArgs(sub)
	}
}

// noArgs is for commands without arguments.
func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("it takes no arguments, and here is %q", args[0])
	}
	return nil
}

// verb returns the path of a command without the program name, which is the prefix of every message anyway.
func verb(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
}

// attached calls f with the running plane in the directory.
func (a *app) attached(f func(context.Context, *localplane.Plane) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		plane, err := localplane.Attach(a.dir)
		if err != nil {
			return err
		}
		return f(cmd.Context(), plane)
	}
}

// named calls f for each argument, until the first error.
func (a *app) named(f func(context.Context, *localplane.Plane, string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return a.attached(func(ctx context.Context, plane *localplane.Plane) error {
			for _, name := range args {
				if err := f(ctx, plane, name); err != nil {
					return err
				}
			}
			return nil
		})(cmd, nil)
	}
}

func (a *app) say(format string, args ...any) {
	// If the terminal is closed, the error cannot be shown.
	_, _ = fmt.Fprintf(a.out, format+"\n", args...)
}
