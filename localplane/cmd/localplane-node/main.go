// SPDX-License-Identifier: Apache-2.0

// The program localplane-node is what a real node of a local plane runs of Kubernetes: kubelet and kube-proxy, by the name that is its
// first argument. It is a program of its own so that a plane without real nodes does not carry it.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	kubeproxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	commands := map[string]func() *cobra.Command{
		"kubelet":    func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
		"kube-proxy": kubeproxy.NewProxyCommand,
	}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: localplane-node kubelet|kube-proxy FLAGS (localplane starts it)")
		os.Exit(2)
	}
	// The commands read their arguments, and what they are called, from here.
	command := commands[os.Args[1]]
	os.Args = os.Args[1:]
	os.Exit(cli.Run(command()))
}
