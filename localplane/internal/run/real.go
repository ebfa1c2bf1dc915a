// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"everynode.dev/everynode/localplane/internal/component"
	"everynode.dev/everynode/localplane/internal/gateway"
	"everynode.dev/everynode/localplane/internal/realnode"
	"everynode.dev/everynode/localplane/internal/registry"
)

func newComponent(name string, run func(cmd *cobra.Command) error) *cobra.Command {
	return &cobra.Command{
		Use: name, Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd) },
	}
}

func newNetworkCommand() *cobra.Command {
	var o realnode.NetworkOptions
	cmd := newComponent(component.Network, func(cmd *cobra.Command) error { return realnode.RunNetwork(cmd.Context(), o) })
	cmd.Flags().StringVar(&o.ReadyFile, "ready-file", "", "file that is made when the network is there")
	return cmd
}

func newNodeInitCommand() *cobra.Command {
	var o realnode.InitOptions
	cmd := newComponent(component.NodeInit, func(cmd *cobra.Command) error { return realnode.RunInit(cmd.Context(), o) })
	fs := cmd.Flags()
	fs.StringVar(&o.Name, "name", "", "the node's name")
	fs.StringVar(&o.Root, "root", "", "directory of the node's disk")
	fs.StringVar(&o.ReadyFile, "ready-file", "", "file that is made when the node can be used")
	fs.StringArrayVar(&o.Keep, "keep", nil, "directories that the node sees although it has others over them")
	return cmd
}

func newGatewayCommand() *cobra.Command {
	o := gateway.Options{
		// The parent process is outside.
		OutsideNetns: fmt.Sprintf("/proc/%d/ns/net", os.Getppid()),
		Reach:        []string{realnode.NodeRange, realnode.PodRange},
	}
	cmd := newComponent(component.Gateway, func(cmd *cobra.Command) error { return gateway.Run(cmd.Context(), o) })
	fs := cmd.Flags()
	fs.StringVar(&o.Listen, "listen", "", "where nodes reach the API server")
	fs.StringVar(&o.APIServer, "api-server", "", "where it is")
	fs.StringVar(&o.Socket, "egress-socket", "", "Unix socket at which the network can be reached")
	fs.StringVar(&o.RegistryListen, "registry-listen", "", "where people reach the registry")
	fs.StringVar(&o.Registry, "registry", "", "where it is")
	fs.StringVar(&o.ReadyFile, "ready-file", "", "file that is made when all ways are open")
	return cmd
}

func newRegistryCommand() *cobra.Command {
	var o registry.Options
	var passwordFile string
	cmd := newComponent(component.Registry, func(cmd *cobra.Command) error {
		password, err := os.ReadFile(passwordFile)
		if err != nil {
			return fmt.Errorf("reading the registry's password: %w", err)
		}
		o.Password = strings.TrimSpace(string(password))
		return registry.Run(cmd.Context(), o)
	})
	fs := cmd.Flags()
	fs.StringVar(&o.Listen, "listen", "", "address to serve at")
	fs.StringVar(&o.Dir, "dir", "", "directory of the images that were pushed")
	fs.StringVar(&passwordFile, "password-file", "", "file with the password of those who push")
	fs.StringVar(&o.Images.Dir, "images", "", "directory of the programs that the images are built from")
	fs.StringVar(&o.Images.AgentTag, "agent-tag", "dev", "tag of the agent's image")
	fs.StringVar(&o.Images.Agent, "agent", "", "program of the agent, for an image of its own")
	fs.StringVar(&o.Log, "log", "", "file that gets a line for each request")
	fs.DurationVar(&o.Latency, "latency", 0, "how long each blob takes")
	fs.StringVar(&o.ReadyFile, "ready-file", "", "file that is made when it serves")
	return cmd
}
