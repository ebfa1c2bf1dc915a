// SPDX-License-Identifier: Apache-2.0

// Package images implements the command that shows which images are on which nodes, and which are being pulled.
//
// There are three sources: pods show on which nodes an image is needed, the status of nodes lists images (at most 50),
// and NodeImages have the state of images that Everynode's agents pull. Without the kinds of apps.kruise.io, the first
// two are used.
//
// Rule: an image that is not in any report is not shown as missing.
package images

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/cli/change"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/resolver"
)

// New returns the command images.
func New(o *options.Options) *cobra.Command {
	everywhere := false
	c := &cobra.Command{
		Use:   "images [NAME]",
		Short: "Show which images are on which nodes, and which are being pulled",
		Long: "Show which images are on which nodes, and which are being pulled: the images of the template of a set, or of all sets of the namespace,\n" +
			"and the ImagePullJobs there. -o wide names nodes.\n\n" +
			"NODES is the number of nodes that need the image, THERE of those that have it. Reports of kubelets count too; each names 50 images\n" +
			"at most, so a node that is not counted in THERE may still have it.\n\n" + options.ExitText,
		Example: "  # Is the new image on the nodes?\n  kubectl everynode images ads/agent\n\n  # Which nodes have failed to pull it, and why?\n  kubectl everynode images ads/agent -o wide",
		Args:    options.Arguments(0, resolver.Argument("NAME")),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := o.Clients()
			if err != nil {
				return err
			}
			return (&verb{o, everywhere}).run(cmd.Context(), c, args)
		},
		ValidArgsFunction: resolver.Complete(o),
	}
	c.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "Look in all namespaces.")
	return c
}

func resource(name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: kruise.Group, Version: kruise.VersionStored, Resource: name}
}

// verb is one run of the command.
type verb struct {
	*options.Options
	everywhere bool
}

func (v *verb) run(ctx context.Context, c *options.Clients, args []string) error {
	var sets []*resolver.Set
	var err error
	if len(args) > 0 {
		var set *resolver.Set
		set, err = resolver.FindToRead(ctx, v.Options, c, args[0])
		sets = append(sets, set)
	} else {
		sets, err = resolver.Readable(ctx, v.Options, c, v.everywhere)
	}
	if err != nil {
		return err
	}
	l := &collector{c: c, namespace: c.Namespace, one: len(args) > 0, images: map[string]*image{}}
	if v.everywhere {
		l.namespace = ""
	}
	report, err := l.report(ctx, sets)
	if err != nil {
		return err
	}
	for _, note := range l.notes {
		change.Note(v.Options, "%s", note)
	}
	return v.Print(report, func(w io.Writer) error { return report.table(w, v.Wide(), v.everywhere) })
}

// Report is the output of the command.
type Report struct {
	Images []Image `json:"images"`
	Jobs   []Job   `json:"jobs"`
}

// Image is one image, with its nodes.
type Image struct {
	Image string `json:"image"`
	// SizeBytes is the size reported by kubelets; 0 if unknown.
	SizeBytes int64 `json:"sizeBytes,omitempty"`
	// Nodes is the number of nodes that need it; on these it is there, is being pulled, waits to be pulled, could not be
	// pulled, or was not reported.
	Nodes       int       `json:"nodes"`
	There       []string  `json:"there"`
	Pulling     []string  `json:"pulling"`
	Waiting     []string  `json:"waiting"`
	Failed      []Failure `json:"failed"`
	NotReported []string  `json:"notReported"`
}

// Failure is a node on which the pull has failed.
type Failure struct {
	Node    string `json:"node"`
	Message string `json:"message,omitempty"`
}

// Job is an ImagePullJob.
type Job struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Image     string `json:"image"`
	Desired   int64  `json:"desired"`
	Active    int64  `json:"active"`
	Succeeded int64  `json:"succeeded"`
	Failed    int64  `json:"failed"`
	Done      bool   `json:"done"`
	Message   string `json:"message,omitempty"`
}

func (r *Report) table(w io.Writer, wide, everywhere bool) error {
	if len(r.Images) == 0 {
		if _, err := fmt.Fprintln(w, "No image is needed here."); err != nil {
			return fmt.Errorf("printing a table: %w", err)
		}
	} else if err := options.Columns(w, imageRows(r.Images)); err != nil {
		return err
	}
	if wide {
		if err := r.places(w); err != nil {
			return err
		}
	}
	if len(r.Jobs) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return fmt.Errorf("printing a table: %w", err)
	}
	return options.Columns(w, jobRows(r.Jobs, everywhere))
}

func imageRows(images []Image) [][]string {
	rows := [][]string{{"IMAGE", "SIZE", "NODES", "THERE", "PULLING", "WAITING", "FAILED", "NOT REPORTED"}}
	for i := range images {
		one := &images[i]
		row := []string{one.Image, size(one.SizeBytes)}
		for _, n := range []int{one.Nodes, len(one.There), len(one.Pulling), len(one.Waiting), len(one.Failed), len(one.NotReported)} {
			row = append(row, fmt.Sprint(n))
		}
		rows = append(rows, row)
	}
	return rows
}

// size formats the size of an image; a dash if it is unknown.
func size(bytes int64) string {
	if bytes == 0 {
		return "-"
	}
	return options.Size(bytes)
}

// shown is the maximum number of nodes in a line.
const shown = 20

// places lists the nodes of each image.
func (r *Report) places(w io.Writer) error {
	for i := range r.Images {
		one := &r.Images[i]
		lines := []string{"", one.Image}
		for _, group := range []struct {
			title string
			nodes []string
		}{{"there", one.There}, {"pulling", one.Pulling}, {"waiting", one.Waiting}, {"not reported", one.NotReported}} {
			if len(group.nodes) > 0 {
				lines = append(lines, "  "+group.title+": "+names(group.nodes))
			}
		}
		for _, failure := range one.Failed {
			lines = append(lines, "  failed: "+failure.Node+": "+failure.Message)
		}
		for _, line := range lines {
			if _, err := fmt.Fprintln(w, options.Printable(line)); err != nil {
				return fmt.Errorf("printing nodes: %w", err)
			}
		}
	}
	return nil
}

func names(nodes []string) string {
	if len(nodes) <= shown {
		return strings.Join(nodes, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(nodes[:shown], ", "), len(nodes)-shown)
}

func jobRows(jobs []Job, everywhere bool) [][]string {
	rows := [][]string{{"JOB", "IMAGE", "NODES", "ACTIVE", "DONE", "FAILED", "STATE"}}
	for i := range jobs {
		one := &jobs[i]
		state := "running"
		if one.Done {
			state = "ended"
		}
		if one.Message != "" {
			state += ": " + one.Message
		}
		rows = append(rows, []string{
			one.Name, one.Image, fmt.Sprint(one.Desired), fmt.Sprint(one.Active), fmt.Sprint(one.Succeeded), fmt.Sprint(one.Failed), state,
		})
	}
	if everywhere {
		rows[0] = slices.Insert(rows[0], 0, "NAMESPACE")
		for i := range jobs {
			rows[i+1] = slices.Insert(rows[i+1], 0, jobs[i].Namespace)
		}
	}
	return rows
}
