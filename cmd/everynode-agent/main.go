// SPDX-License-Identifier: Apache-2.0

// Command everynode-agent pulls images ahead on the node that it runs on.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"everynode.dev/everynode/internal/agent"
)

// Exit codes.
const (
	exitFailure = 1
	exitUsage   = 2
)

// version is set when the program is linked.
var version = "unknown"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	err := agent.NewCommand(version).ExecuteContext(ctx)
	if err == nil {
		return
	}
	fmt.Fprintf(os.Stderr, "everynode-agent: %v\n", err)
	if usage := (*agent.UsageError)(nil); errors.As(err, &usage) {
		fmt.Fprintln(os.Stderr, "See everynode-agent --help.")
		os.Exit(exitUsage)
	}
	os.Exit(exitFailure)
}
