// SPDX-License-Identifier: Apache-2.0

// Package run runs this program as one component of a plane: the supervisor starts the program for each component, with
// its name as the argument, so that each is a separate process.
//
// It is the only package of this module that imports Kubernetes, etcd and kwok; the packages that manage a plane, and
// their tests, do not need them.
package run

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	"everynode.dev/everynode/localplane/internal/component"
)

// Kubectl is the name with which this program runs kubectl.
const Kubectl = "kubectl"

// Main runs the component with this name and arguments and returns its exit code.
func Main(name string, args []string) int {
	// The commands of Kubernetes read their arguments and their name from os.Args.
	os.Args = append([]string{name}, args...)
	switch name {
	case component.Etcd:
		etcdmain.Main(os.Args)
		return 0
	case component.APIServer:
		return cli.Run(apiserver.NewAPIServerCommand())
	case component.ControllerManager, component.NativeController:
		return cli.Run(controllermanager.NewControllerManagerCommand())
	case component.Scheduler:
		return cli.Run(scheduler.NewSchedulerCommand())
	case component.Kwok:
		return runCommand(newKwokCommand())
	case component.Network:
		return runCommand(newNetworkCommand())
	case component.NodeInit:
		return runCommand(newNodeInitCommand())
	case component.Gateway:
		return runCommand(newGatewayCommand())
	case component.Registry:
		return runCommand(newRegistryCommand())
	case Kubectl:
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			kubectlutil.CheckErr(err)
		}
		return 0
	default:
		fmt.Fprintf(os.Stderr, "there is no component %q\n", name)
		return 2
	}
}

// runCommand runs one of our own components until it is asked to end.
func runCommand(cmd *cobra.Command) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) //nolint:forbidigo // this is the main of each component, for each of which localplane starts itself again
	defer stop()
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
