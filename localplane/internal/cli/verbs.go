// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"everynode.dev/everynode/localplane"
)

func (a *app) downCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Stop the plane, wherever it runs; its state stays",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.down(cmd.Context()) },
	}
}

// down stops a running plane, or the processes that a killed one left behind.
func (a *app) down(ctx context.Context) error {
	plane, err := localplane.Attach(a.dir)
	if err == nil {
		if err := plane.Stop(ctx); err != nil {
			return err
		}
		a.say("stopped, the state stays in %s", plane.Dir())
		return nil
	}
	ended, err := localplane.CleanUp(a.dir)
	if err != nil {
		return err
	}
	if len(ended) == 0 {
		a.say("nothing runs in %s", a.dir)
		return nil
	}
	a.say("ended what an earlier run left behind: %s", strings.Join(ended, ", "))
	return nil
}

func (a *app) nodesCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "nodes", Short: "Add or remove simulated nodes", RunE: needsVerb, Args: cobra.ArbitraryArgs}
	cmd.AddCommand(&cobra.Command{
		Use: "add N", Short: "Add N simulated nodes", Args: cobra.ExactArgs(1),
		RunE: a.named(func(ctx context.Context, plane *localplane.Plane, count string) error {
			n, err := strconv.Atoi(count)
			if err != nil {
				return &localplane.UsageError{Message: fmt.Sprintf("nodes add %q: a whole number is needed", count)}
			}
			names, err := plane.AddNodes(ctx, n)
			if err != nil {
				return err
			}
			a.say("added %s to %s", names[0], names[len(names)-1])
			return nil
		}),
	}, &cobra.Command{
		Use: "remove NAME", Short: "Remove a node, as one that will not come back", Args: cobra.ExactArgs(1),
		RunE: a.named(func(ctx context.Context, plane *localplane.Plane, name string) error {
			if err := plane.RemoveNode(ctx, name); err != nil {
				return err
			}
			a.say("removed %s", name)
			return nil
		}),
	})
	return cmd
}

func (a *app) nodeCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "node", Short: "Cut a node's network, heal it, kill a real one, run a command there, or serve a node's API", RunE: needsVerb, Args: cobra.ArbitraryArgs}
	cmd.AddCommand(&cobra.Command{
		Use: "cut NAME...", Short: "Cut nodes off the network: they go NotReady, and the pods of simulated ones stop changing", Args: cobra.MinimumNArgs(1),
		RunE: a.named(func(ctx context.Context, plane *localplane.Plane, name string) error {
			if err := plane.CutNode(ctx, name); err != nil {
				return err
			}
			a.say("cut %s: it is NotReady once its lease has run out", name)
			return nil
		}),
	}, &cobra.Command{
		Use: "heal NAME...", Short: "Undo a cut", Args: cobra.MinimumNArgs(1),
		RunE: a.named(func(ctx context.Context, plane *localplane.Plane, name string) error {
			if err := plane.HealNode(ctx, name); err != nil {
				return err
			}
			a.say("healed %s", name)
			return nil
		}),
	})
	cmd.AddCommand(a.powerCommands()...)
	cmd.AddCommand(a.nodeExecCommand(), a.nodeAPICommand())
	return cmd
}

func (a *app) nodeAPICommand() *cobra.Command {
	listen, off := "", false
	cmd := &cobra.Command{
		Use: "api NAME", Short: "Serve the API of a node, as its agent does, and print where", Args: cobra.ExactArgs(1),
		Long: "Serves the API of a node, as its agent does, and prints where it is and which file holds the token of the node's owner.\n" +
			"It is served until --off, also while the node is cut, and over restarts of the plane. The routes of OpenYurt are open\n" +
			"on a plane with the dialect openyurt.",
		Example: "  localplane node api --listen 127.0.0.1:10267 node-0003\n  curl 127.0.0.1:10267/pods",
		RunE: a.named(func(ctx context.Context, plane *localplane.Plane, name string) error {
			if off {
				if err := plane.EndNodeAPI(ctx, name); err != nil {
					return err
				}
				a.say("%s no longer serves an API", name)
				return nil
			}
			api, err := plane.ServeNodeAPI(ctx, name, listen)
			if err != nil {
				return err
			}
			a.say("http://%s", api.Address)
			a.say("token of the owner in %s", api.TokenFile)
			return nil
		}),
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "address of this machine to serve at; the port 0 is any that is free")
	cmd.Flags().BoolVar(&off, "off", false, "stop serving it")
	return cmd
}

func (a *app) componentCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "component", Short: "Kill a component, or start it again", RunE: needsVerb, Args: cobra.ArbitraryArgs}
	cmd.AddCommand(&cobra.Command{
		Use: "kill NAME", Short: "End a component with SIGKILL; it stays down until it is started", Args: cobra.ExactArgs(1),
		RunE: a.named(func(ctx context.Context, plane *localplane.Plane, name string) error {
			if err := plane.KillComponent(ctx, name); err != nil {
				return err
			}
			a.say("killed %s", name)
			return nil
		}),
	}, &cobra.Command{
		Use: "start NAME", Short: "Start a component and wait until it is ready", Args: cobra.ExactArgs(1),
		RunE: a.named(func(ctx context.Context, plane *localplane.Plane, name string) error {
			if err := plane.StartComponent(ctx, name); err != nil {
				return err
			}
			a.say("%s is ready", name)
			return nil
		}),
	})
	return cmd
}

// needsVerb is the function of a command that only has subcommands.
func needsVerb(cmd *cobra.Command, args []string) error {
	var verbs []string
	for _, sub := range cmd.Commands() {
		verbs = append(verbs, sub.Use)
	}
	what := "a verb is missing"
	if len(args) > 0 {
		what = fmt.Sprintf("unknown verb %q", args[0])
	}
	return &localplane.UsageError{Message: fmt.Sprintf("%s: %s: it is %s", verb(cmd), what, strings.Join(verbs, " or "))}
}
