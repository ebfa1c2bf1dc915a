// SPDX-License-Identifier: Apache-2.0

// Package history implements the commands about earlier templates of a DaemonSet: history and diff.
package history

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/resolver"
)

// Entry is one revision, for machine-readable output.
type Entry struct {
	Revision int64     `json:"revision"`
	Name     string    `json:"name"`
	Hash     string    `json:"hash"`
	Created  time.Time `json:"created"`
	Current  bool      `json:"current"`
	// Pods is absent if the user may not read pods.
	Pods     *int           `json:"pods,omitempty"`
	Images   []string       `json:"images"`
	Cause    string         `json:"changeCause,omitempty"`
	Template map[string]any `json:"template,omitempty"`
}

const historyLong = `List the templates that a daemon set has had, as its controller has written them down in ControllerRevisions, with how many pods have
each. The one that the set asks for now is marked with *; where no controller has written it down yet, it comes last and has no number.

With --revision the template of one of them is shown.

` + options.ExitText

const historyExample = `  # All revisions
  kubectl everynode history agent

  # The template of revision 3
  kubectl everynode history agent --revision 3`

// New returns the command history.
func New(o *options.Options) *cobra.Command {
	number := int64(0)
	cmd := &cobra.Command{
		Use:               "history NAME [--revision N]",
		Short:             "List the revisions of a set, or show one of them",
		Long:              historyLong,
		Example:           historyExample,
		Args:              options.Arguments(1, resolver.Argument("NAME")),
		ValidArgsFunction: resolver.Complete(o),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("revision") && number < 1 {
				return options.Usagef("--revision is %d: use a number of the history", number)
			}
			return run(cmd.Context(), o, args[0], number)
		},
	}
	cmd.Flags().Int64Var(&number, "revision", 0, "Show the template of this revision.")
	if err := cmd.RegisterFlagCompletionFunc("revision", complete(o)); err != nil {
		panic(err) // the flag does not exist: every test that creates a command finds this
	}
	return cmd
}

func run(ctx context.Context, o *options.Options, arg string, number int64) error {
	clients, err := o.Clients()
	if err != nil {
		return err
	}
	set, err := resolver.FindToRead(ctx, o, clients, arg)
	if err != nil {
		return err
	}
	versions, written, err := inspect.History(ctx, clients, set)
	if err != nil {
		return err
	}
	if number > 0 {
		version, err := pick(versions, set, strconv.FormatInt(number, 10))
		if err != nil {
			return err
		}
		return show(o, set, version)
	}
	return list(o, set, versions, written)
}

func entry(v *inspect.Version) Entry {
	e := Entry{Revision: v.Number, Name: v.Name, Hash: v.Hash, Created: time.Unix(0, int64(v.Created)).UTC(), Current: v.Current, Images: images(v.Template()), Cause: v.Cause}
	if v.Pods >= 0 {
		e.Pods = &v.Pods
	}
	return e
}

func list(o *options.Options, set *resolver.Set, versions []inspect.Version, written bool) error {
	entries := []Entry{}
	for i := range versions {
		entries = append(entries, entry(&versions[i]))
	}
	return o.Print(entries, func(w io.Writer) error {
		rows := [][]string{{"REVISION", "HASH", "AGE", "PODS", "IMAGES"}}
		if o.Wide() {
			rows[0] = append(rows[0], "NAME", "CHANGE-CAUSE")
		}
		for _, e := range entries {
			row := []string{mark(e), e.Hash, inspect.Age(o.Now().Sub(e.Created)), count(e.Pods), strings.Join(e.Images, ", ")}
			if o.Wide() {
				row = append(row, e.Name, e.Cause)
			}
			rows = append(rows, row)
		}
		if !written {
			template, _, _ := unstructured.NestedMap(set.Object.Object, "spec", "template")
			rows = append(rows, []string{"*", "(no revision yet)", "-", "0", strings.Join(images(template), ", ")})
		}
		return options.Columns(w, rows)
	})
}

func mark(e Entry) string {
	text := strconv.FormatInt(e.Revision, 10)
	if e.Current {
		return text + " *"
	}
	return text
}

func count(pods *int) string {
	if pods == nil {
		return "?"
	}
	return strconv.Itoa(*pods)
}

// images returns the images of the containers of a template, init containers first.
func images(template map[string]any) []string {
	names := []string{}
	for _, kind := range []string{"initContainers", "containers"} {
		containers, _, _ := unstructured.NestedSlice(template, "spec", kind)
		for _, c := range containers {
			if container, ok := c.(map[string]any); ok {
				if image, ok := container["image"].(string); ok {
					names = append(names, image)
				}
			}
		}
	}
	return names
}

// show prints the template of one revision.
func show(o *options.Options, set *resolver.Set, v *inspect.Version) error {
	e := entry(v)
	e.Template = v.Template()
	return o.Print(e, func(w io.Writer) error {
		data, err := yaml.Marshal(v.Template())
		if err != nil {
			return fmt.Errorf("printing the template: %w", err)
		}
		pods := ""
		if e.Pods != nil {
			pods = fmt.Sprintf(", %d pods", *e.Pods)
		}
		_, err = fmt.Fprintf(w, "# %s, revision %s (%s), %s old%s\n%s", set.Title(), mark(e), e.Hash, inspect.Age(o.Now().Sub(e.Created)), pods, data)
		return err
	})
}

// pick finds a revision by its number, hash or name.
func pick(versions []inspect.Version, set *resolver.Set, word string) (*inspect.Version, error) {
	for i := range versions {
		v := &versions[len(versions)-1-i]
		if word == strconv.FormatInt(v.Number, 10) || word == v.Hash || word == v.Name {
			if v.Template() == nil {
				return nil, fmt.Errorf("revision %s of %s cannot be read: its data is not a template", word, set)
			}
			return v, nil
		}
	}
	var known []string
	for i := range versions {
		known = append(known, strconv.FormatInt(versions[i].Number, 10))
	}
	if len(known) == 0 {
		return nil, fmt.Errorf("%s has no revision %s: its history is empty", set, word)
	}
	return nil, fmt.Errorf("%s has no revision %s: it has %s", set, word, strings.Join(known, ", "))
}

// complete completes revisions, after the name of the set.
func complete(o *options.Options) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
		if len(args) == 0 {
			return nil, directive
		}
		clients, err := o.Clients()
		if err != nil {
			return nil, directive
		}
		set, err := resolver.Find(cmd.Context(), clients, args[0])
		if err != nil {
			return nil, directive
		}
		all, err := inspect.Revisions(cmd.Context(), clients, set)
		if err != nil {
			return nil, directive
		}
		var numbers []string
		for i := range all {
			numbers = append(numbers, strconv.FormatInt(all[i].Revision, 10))
		}
		return numbers, directive
	}
}
