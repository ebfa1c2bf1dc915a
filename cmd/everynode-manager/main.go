// SPDX-License-Identifier: Apache-2.0

// Command everynode-manager runs Everynode's controllers.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"everynode.dev/everynode/internal/cli/command"
	"everynode.dev/everynode/internal/cli/dashboard"
	"everynode.dev/everynode/internal/cli/doctor"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/manager"
)

// Exit codes.
const (
	exitFailure = 1
	exitUsage   = 2
)

// version is set when the program is linked.
var version = "unknown"

// checkUninstall is the argument with which the program does what kubectl everynode doctor --before-uninstall does: the chart calls it before it is uninstalled.
const checkUninstall = "check-uninstall"

func main() {
	ctx := ctrl.SetupSignalHandler()
	if len(os.Args) == 2 && os.Args[1] == checkUninstall {
		os.Exit(mayUninstall(ctx))
	}
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case dashboard.InCluster:
			os.Exit(run(ctx, dashboard.NewInCluster(newOptions(), command.Root)))
		case doctor.InCluster:
			os.Exit(run(ctx, doctor.NewInCluster(newOptions())))
		}
	}
	err := manager.NewCommand(version).ExecuteContext(ctx)
	if err == nil {
		return
	}
	fmt.Fprintf(os.Stderr, "everynode-manager: %v\n", err)
	if usage := (*manager.UsageError)(nil); errors.As(err, &usage) {
		fmt.Fprintln(os.Stderr, "See everynode-manager --help.")
		os.Exit(exitUsage)
	}
	os.Exit(exitFailure)
}

// mayUninstall is the exit code of the check.
func mayUninstall(ctx context.Context) int {
	o := newOptions()
	root := command.Root(o)
	root.SetArgs([]string{"doctor", "--before-uninstall"})
	err := root.ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintf(os.Stderr, "everynode-manager: %s\n", options.PrintableLines(err.Error()))
	}
	return options.Code(err)
}

// runner is a command of its own.
type runner interface {
	Name() string
	SetArgs(args []string)
	ExecuteContext(ctx context.Context) error
}

// run is the exit code of a command, which gets all further arguments.
func run(ctx context.Context, cmd runner) int {
	ctrl.SetLogger(klog.Background()) // for what it takes from controller-runtime
	cmd.SetArgs(os.Args[2:])
	err := cmd.ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintf(os.Stderr, "everynode-manager %s: %s\n", cmd.Name(), options.PrintableLines(err.Error()))
	}
	return options.Code(err)
}

func newOptions() *options.Options {
	o := options.New(genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
	o.Version = version
	return o
}
