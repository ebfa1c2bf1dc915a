// SPDX-License-Identifier: Apache-2.0

// Command kubectl-everynode is a plugin of kubectl: kubectl everynode.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"

	"everynode.dev/everynode/internal/cli/command"
	"everynode.dev/everynode/internal/cli/options"
)

// version is set when the program is linked.
var version = "unknown"

func main() { os.Exit(run()) }

func run() int {
	quiet()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o := options.New(genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
	o.Version = version
	err := command.Root(o).ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s\n", options.Program, options.PrintableLines(err.Error())) // the cluster may have a say in it
	}
	return options.Code(err)
}

// quiet keeps the log of client-go off the terminal: what is worth saying comes as an error, and a line in between would tear the picture.
func quiet() {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	if err := flags.Set("logtostderr", "false"); err != nil {
		panic(err) // klog has no such flag any more: found by the first run
	}
	klog.SetOutput(io.Discard)
}
