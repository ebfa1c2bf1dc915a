// SPDX-License-Identifier: Apache-2.0

// The program testapp runs in the pods of real nodes in tests; see the package of the same name.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"everynode.dev/everynode/localplane/testapp"
)

func main() {
	// Process 1 of a container ignores all signals that it does not handle.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := testapp.Run(ctx, testapp.Invocation{Args: os.Args[1:], Getenv: os.Getenv, Out: os.Stdout})
	stop()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, err)
	if errors.Is(err, testapp.ErrUsage) {
		os.Exit(2)
	}
	os.Exit(1)
}
