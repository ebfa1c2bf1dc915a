// SPDX-License-Identifier: Apache-2.0

// The program localplane runs a real Kubernetes control plane on this machine, with simulated nodes, real ones or both, and Everynode on it.
package main

import (
	"os"

	"everynode.dev/everynode/localplane/internal/cli"
	"everynode.dev/everynode/localplane/internal/component"
	"everynode.dev/everynode/localplane/internal/run"
)

func main() {
	// The program was started by itself, as a component of a plane.
	if len(os.Args) > 2 && os.Args[1] == component.RunVerb {
		os.Exit(run.Main(os.Args[2], os.Args[3:]))
	}
	os.Exit(cli.Main(os.Args[1:]))
}
