// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"everynode.dev/everynode/localplane"
	"everynode.dev/everynode/localplane/demo"
)

func (a *app) demoCommand() *cobra.Command {
	var o localplane.Options
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Roll a DaemonSet before your eyes, with two nodes cut off and a bad image undone",
		Long: `demo starts a plane, creates a DaemonSet, rolls it to a second version while two nodes are cut off from the network, gives it
an image that cannot be pulled, undoes that, and stops everything. On a terminal it draws one character per node; elsewhere it
writes plain lines. It counts on its own, from the API server's watch, and fails when something did not hold.

Without --dir the plane lives in a temporary directory.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("dir") {
				o.Dir = a.dir
			}
			return a.demo(cmd.Context(), o)
		},
	}
	fs := cmd.Flags()
	fs.IntVar(&o.Nodes, "nodes", demo.DefaultNodes, fmt.Sprintf("simulated nodes, at least %d", demo.LeastNodes))
	fs.BoolVar(&o.Fresh, "fresh", false, "wipe the state of an earlier run in --dir")
	fs.BoolVar(&o.NativeController, "native-controller", false, "let upstream's DaemonSet controller do the work instead of Everynode, to compare")
	return cmd
}

func (a *app) demo(ctx context.Context, o localplane.Options) error {
	if o.NativeController {
		o.Dialects = []string{localplane.NoDialects}
	}
	// The client library logs single connections, which would overwrite the picture.
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	dir, err := demo.UseDirectory(o.Dir, o.Fresh)
	if err != nil {
		return err
	}
	o.Dir = dir.Path
	err = demo.Run(ctx, demo.Options{Plane: o, Out: a.out, Getenv: os.Getenv})
	if where := dir.Leave(err); where != "" {
		return fmt.Errorf("%w; %s", err, where)
	}
	return err
}
