// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"everynode.dev/everynode/localplane"
	"everynode.dev/everynode/localplane/internal/component"
)

const kubectl = "kubectl"

func (a *app) kubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl [--dir DIR] ARGS…",
		Short: "Run the kubectl that is built in against the plane",
		Long: `Runs kubectl with KUBECONFIG set to the plane's. Everything after kubectl is kubectl's own, except a --dir that comes first.
It is the one of the Kubernetes version that the plane is built from, also if the machine has another kubectl.`,
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			return a.kubectl(a.takeDir(args))
		},
	}
}

// takeDir reads a --dir that is the first argument.
func (a *app) takeDir(args []string) []string {
	if len(args) >= 2 && args[0] == "--dir" {
		a.dir = args[1]
		return args[2:]
	}
	if len(args) >= 1 {
		if dir, found := strings.CutPrefix(args[0], "--dir="); found {
			a.dir = dir
			return args[1:]
		}
	}
	return args
}

// kubectl replaces this process by this program as kubectl, which then handles signals and terminal, and sets the exit code.
func (a *app) kubectl(args []string) error {
	plane, err := localplane.Attach(a.dir)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	env := append(os.Environ(), "KUBECONFIG="+plane.Kubeconfig())
	if err := syscall.Exec(self, append([]string{self, component.RunVerb, kubectl}, args...), env); err != nil {
		return fmt.Errorf("running %s: %w", self, err)
	}
	return nil
}
