// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"everynode.dev/everynode/localplane"
)

// powerCommands returns the commands that power real nodes off and on.
func (a *app) powerCommands() []*cobra.Command {
	return []*cobra.Command{{
		Use: "kill NAME...", Short: "Turn real nodes off, as a loss of power does; their disks stay", Args: cobra.MinimumNArgs(1),
		RunE: a.named(func(ctx context.Context, plane *localplane.Plane, name string) error {
			if err := plane.KillNode(ctx, name); err != nil {
				return err
			}
			a.say("killed %s: it is NotReady once its lease has run out", name)
			return nil
		}),
	}, {
		Use: "start NAME...", Short: "Turn real nodes on again", Args: cobra.MinimumNArgs(1),
		RunE: a.named(func(ctx context.Context, plane *localplane.Plane, name string) error {
			if err := plane.StartNode(ctx, name); err != nil {
				return err
			}
			a.say("%s runs", name)
			return nil
		}),
	}}
}

func (a *app) nodeExecCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "exec NAME -- COMMAND [ARGUMENT...]", Short: "Run a command of this machine inside of a real node", Args: cobra.MinimumNArgs(2),
		Long: "Runs a command of this machine inside of a real node: in its network, among its processes, with its files.\n" +
			"The exit code is that of the command.",
		Example: "  localplane node exec real-1 -- curl -s 127.0.0.1:10267/pods\n  localplane node exec real-1 -- ctr -n k8s.io containers ls\n  localplane node exec real-1 -- bash",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.attached(func(ctx context.Context, plane *localplane.Plane) error {
				return plane.NodeExec(ctx, args[0], args[1:], localplane.Streams{In: os.Stdin, Out: a.out, Err: os.Stderr})
			})(cmd, nil)
		},
	}
	return cmd
}
