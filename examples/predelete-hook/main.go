// SPDX-License-Identifier: Apache-2.0

// Command predelete-hook is an example of a controller that pods of an Advanced DaemonSet wait for before they are deleted;
// see README.md in this directory. Package hook has the implementation.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"

	"everynode.dev/everynode/examples/predelete-hook/hook"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "predelete-hook:", err)
		os.Exit(1) //nolint:forbidigo // this is main
	}
}

func run(ctx context.Context, args []string) error {
	o := hook.Options{}
	flags := pflag.NewFlagSet("predelete-hook", pflag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "`file` with the cluster to work on; without it $KUBECONFIG, or the cluster that this runs in")
	flags.StringVar(&o.Namespace, "namespace", "", "the only namespace to look at; without it all")
	flags.StringVar(&o.Label, "label", hook.DefaultLabel, "the label to remove from a pod that waits; empty for none")
	flags.StringVar(&o.Finalizer, "finalizer", hook.DefaultFinalizer, "the finalizer to remove from a pod that waits; empty for none")
	switch err := flags.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		return nil
	case err != nil:
		return err
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = *kubeconfig
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return fmt.Errorf("no cluster to work on: %w (give --kubeconfig, set KUBECONFIG, or run in a pod)", err)
	}
	return hook.Run(ctx, cfg, o)
}
