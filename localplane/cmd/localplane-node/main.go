// SPDX-License-Identifier: Apache-2.0

// The program localplane-node contains the parts of Kubernetes on a real node: kubelet and kube-proxy. Its first
// argument selects one. It is a separate program so that planes without real nodes do not need it.
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
	// The commands read their arguments and their name from os.Args.
	command := commands[os.Args[1]]
	os.Args = os.Args[1:]
	os.Exit(cli.Run(command()))
}
