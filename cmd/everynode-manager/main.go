// SPDX-License-Identifier: Apache-2.0

// Command everynode-manager runs Everynode's controllers.
package main

import (
	"errors"
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"

	"everynode.dev/everynode/internal/manager"
)

// Exit codes.
const (
	exitFailure = 1
	exitUsage   = 2
)

// version is set when the program is linked.
var version = "unknown"

func main() {
	err := manager.NewCommand(version).ExecuteContext(ctrl.SetupSignalHandler())
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
