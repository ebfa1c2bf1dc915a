// SPDX-License-Identifier: Apache-2.0

package ota

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	v2 "everynode.dev/everynode/api/agent/v2"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/podselector"
	"everynode.dev/everynode/internal/ota"
)

const revisionLabel = appsv1.ControllerRevisionHashLabelKey

func newList(o *options.Options) *cobra.Command {
	everywhere, all := false, false
	c := &cobra.Command{
		Use:   "list [daemonset/NAME|ads/NAME] [NODE|POD]...",
		Short: "Show which pods have a newer version",
		Long: "Show which pods have a newer version, which one, and how far its images are on their nodes:\n" +
			string(v2.ImagesNotRequested) + " (an upgrade pulls them), " + string(v2.ImagesPulling) + ", " + string(v2.ImagesReady) + ", " + string(v2.ImagesFailed) + ", or " + string(v2.ImagesOutdated) +
			" (requested for an earlier version).\n\n" + options.ExitText,
		Example: "  # Those of the namespace that have one\n  kubectl everynode ota list\n\n  # All pods of one set\n  kubectl everynode ota list daemonset/agent --all",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := o.Clients()
			if err != nil {
				return err
			}
			found, err := scope{o, c, everywhere, false}.find(cmd.Context(), args)
			if err == nil {
				err = found.unknown()
			}
			if err != nil {
				return err
			}
			rows := []Row{}
			for i := range found.all {
				if one := &found.all[i]; all || one.old {
					rows = append(rows, one.row())
				}
			}
			return o.Print(rows, func(w io.Writer) error {
				if reason := found.byController(); reason != nil {
					return line(w, "No pod is shown: "+reason.Error()+".")
				}
				return table(w, rows, everywhere)
			})
		},
		ValidArgsFunction: podselector.Complete(o, false),
	}
	c.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "Look in all namespaces.")
	c.Flags().BoolVar(&all, "all", false, "Show pods that are up to date, too.")
	return c
}

// Row is a pod that is upgraded one by one, for machine-readable output.
type Row struct {
	Namespace   string `json:"namespace"`
	Set         string `json:"set"`
	Node        string `json:"node"`
	Pod         string `json:"pod"`
	Ready       bool   `json:"ready"`
	Deleting    bool   `json:"deleting,omitempty"`
	NeedUpgrade bool   `json:"needUpgrade"`
	Revision    string `json:"revision"`
	Next        string `json:"nextRevision,omitempty"`
	Images      string `json:"images"`
}

func (one *candidate) row() Row {
	ready := ota.Condition(one.pod, corev1.PodReady)
	row := Row{
		Namespace: one.pod.Namespace, Set: one.set.String(), Node: one.pod.Spec.NodeName, Pod: one.pod.Name,
		Ready: ready != nil && ready.Status == corev1.ConditionTrue, Deleting: one.pod.DeletionTimestamp != nil,
		NeedUpgrade: one.old, Revision: one.pod.Labels[revisionLabel], Images: string(one.images()),
	}
	if one.old {
		row.Next = one.next
	}
	return row
}

func line(w io.Writer, text string) error {
	if _, err := fmt.Fprintln(w, text); err != nil {
		return fmt.Errorf("printing a table: %w", err)
	}
	return nil
}

func table(w io.Writer, rows []Row, everywhere bool) error {
	if len(rows) == 0 {
		return line(w, "No pod has a newer version.")
	}
	text := [][]string{{"SET", "NODE", "POD", "READY", "REVISION", "NEXT", "IMAGES"}}
	for _, row := range rows {
		ready, next, images := "no", row.Next, row.Images
		if row.Ready {
			ready = "yes"
		}
		if !row.NeedUpgrade {
			images = "-" // there is no newer version
		}
		switch {
		case row.Deleting:
			ready = "deleting"
		case next == "":
			next = "-"
		}
		text = append(text, []string{row.Set, row.Node, row.Pod, ready, row.Revision, next, images})
	}
	if everywhere {
		text[0] = append([]string{"NAMESPACE"}, text[0]...)
		for i := range rows {
			text[i+1] = append([]string{rows[i].Namespace}, text[i+1]...)
		}
	}
	return options.Columns(w, text)
}
