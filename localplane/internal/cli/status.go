// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"everynode.dev/everynode/localplane"
)

func (a *app) statusCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the components with their CPU and memory, and the nodes by state",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != "" && format != "json" {
				return &localplane.UsageError{Message: fmt.Sprintf("--output is %q: it is json, or left out for a table", format)}
			}
			return a.attached(func(ctx context.Context, plane *localplane.Plane) error {
				status, err := plane.Status(ctx)
				if err != nil {
					return err
				}
				if format == "json" {
					return writeJSON(a.out, status)
				}
				return writeTable(a.out, status)
			})(cmd, args)
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", "", "json for a program to read")
	return cmd
}

func writeJSON(out io.Writer, status *localplane.Status) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(status)
}

func writeTable(out io.Writer, status *localplane.Status) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "COMPONENT\tSTATE\tPID\tUPTIME\tCPU\tMEMORY\tRESTARTS")
	for _, c := range status.Components {
		if c.PID == 0 {
			fmt.Fprintf(w, "%s\t%s\t-\t-\t-\t-\t%d\n", c.Name, c.State, c.Restarts)
			continue
		}
		uptime := (time.Duration(c.UptimeSeconds) * time.Second).String()
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%.1fs\t%d MiB\t%d\n", c.Name, c.State, c.PID, uptime, c.CPUSeconds, c.RSSBytes>>20, c.Restarts)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := writeFailed(out, status); err != nil {
		return err
	}
	if err := writeNodes(out, status); err != nil || status.Registry == "" {
		return err
	}
	_, err := fmt.Fprintf(out, "registry: push to %s/NAME:TAG, pods name it %s/NAME:TAG\n", status.Registry, localplane.RegistryHost)
	return err
}

func writeNodes(out io.Writer, status *localplane.Status) error {
	if status.Nodes == nil {
		_, err := fmt.Fprintf(out, "\nnodes: unknown (%s)\n", status.NodesError)
		return err
	}
	_, err := fmt.Fprintf(out, "\nnodes: %d Ready, %d NotReady, %d cut\n", status.Nodes.Ready, status.Nodes.NotReady, status.Nodes.Cut)
	return err
}

// writeFailed prints what to do about components that are not restarted.
func writeFailed(out io.Writer, status *localplane.Status) error {
	for _, c := range status.Components {
		if c.State != localplane.ComponentFailed {
			continue
		}
		log := filepath.Join(status.Dir, "logs", c.Name+".log")
		if _, err := fmt.Fprintf(out, "\n%s ended before it was ready: see %s, then `localplane component start %s --dir %s`\n",
			c.Name, log, c.Name, status.Dir); err != nil {
			return err
		}
	}
	return nil
}
