// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"os"
	"os/exec"
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
		Short: "Run kubectl against the plane: the machine's own, or else the one that is built in",
		Long: `Runs kubectl with KUBECONFIG set to the plane's. Everything after kubectl is kubectl's own, except a --dir that comes first.
If the machine has a kubectl it is used, else the one that is built in.`,
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

// kubectl replaces this process by kubectl, which then handles signals and terminal, and sets the exit code.
func (a *app) kubectl(args []string) error {
	plane, err := localplane.Attach(a.dir)
	if err != nil {
		return err
	}
	path, argv, err := kubectlProgram(os.Getenv(insideKubectl) != "")
	if err != nil {
		return err
	}
	env := append(os.Environ(), "KUBECONFIG="+plane.Kubeconfig(), insideKubectl+"=true")
	if err := syscall.Exec(path, append(argv, args...), env); err != nil {
		return fmt.Errorf("running %s: %w", path, err)
	}
	return nil
}

// insideKubectl is set in the environment of the machine's kubectl, which may be a script that calls this program.
const insideKubectl = "EVERYNODE_INSIDE_KUBECTL"

// kubectlProgram returns the machine's kubectl, or this program as kubectl, also for a script that would call itself.
func kubectlProgram(inside bool) (path string, argv []string, err error) {
	if path, err := exec.LookPath(kubectl); err == nil && !inside {
		return path, []string{kubectl}, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", nil, fmt.Errorf("finding this program: %w", err)
	}
	return self, []string{self, component.RunVerb, kubectl}, nil
}
