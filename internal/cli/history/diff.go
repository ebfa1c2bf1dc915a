// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/resolver"
	"everynode.dev/everynode/internal/cli/textdiff"
	"everynode.dev/everynode/internal/revision"
)

// now is the name of the current template of the set.
const now = "now"

// Difference is the output as JSON or YAML.
type Difference struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Diff is a unified diff of the templates as YAML; empty if they do not differ.
	Diff string `json:"diff"`
}

const diffLong = `Show what differs between two templates that a daemon set has had. A revision is named by its number, its hash or its name;
"now" is the template that the set asks for, which is also what REV2 is if it is left out.

` + options.ExitText

const diffExample = `  # What has changed between revisions 3 and 4
  kubectl everynode diff agent 3 4

  # What would an undo to revision 2 change back
  kubectl everynode diff ads/agent 2`

// NewDiff returns the command diff.
func NewDiff(o *options.Options) *cobra.Command {
	return &cobra.Command{
		Use:     "diff NAME REV1 [REV2]",
		Short:   "Show the differences between two revisions",
		Long:    diffLong,
		Example: diffExample,
		Args:    options.Arguments(2, resolver.Argument("NAME"), revisionArgument("REV1"), revisionArgument("REV2")),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			switch len(args) {
			case 0:
				return resolver.Complete(o)(cmd, args, word)
			case 1, 2:
				numbers, directive := complete(o)(cmd, args, word)
				return append(numbers, now), directive
			default:
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
		},
		RunE: func(cmd *cobra.Command, args []string) error { return diff(cmd.Context(), o, append(args, now)) },
	}
}

func revisionArgument(word string) options.Argument {
	return options.Argument{Word: word, What: "the number, hash or name of a revision, or now"}
}

func diff(ctx context.Context, o *options.Options, args []string) error {
	clients, err := o.Clients()
	if err != nil {
		return err
	}
	set, err := resolver.FindToRead(ctx, o, clients, args[0])
	if err != nil {
		return err
	}
	versions, _, err := inspect.History(ctx, clients, set)
	if err != nil {
		return err
	}
	var names [2]string
	var templates [2]map[string]any
	for i, word := range args[1:3] {
		if names[i], templates[i], err = templateOf(versions, set, word); err != nil {
			return err
		}
	}
	text, err := textdiff.Unified(names[0], names[1], templates[0], templates[1])
	if err != nil {
		return err
	}
	d := Difference{From: names[0], To: names[1], Diff: text}
	return o.Print(d, func(w io.Writer) error { return printDiff(w, d, o.Colour()) })
}

func templateOf(versions []inspect.Version, set *resolver.Set, word string) (name string, template map[string]any, err error) {
	if word == now {
		template, err = written(set)
		return set.String() + " now", template, err
	}
	version, err := pick(versions, set, word)
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("%s revision %d (%s)", set, version.Number, version.Hash), version.Template(), nil
}

// printDiff prints a diff in colours.
func printDiff(w io.Writer, d Difference, colour bool) error {
	if d.Diff == "" {
		_, err := fmt.Fprintf(w, "%s and %s do not differ\n", d.From, d.To)
		return err
	}
	for _, line := range strings.SplitAfter(d.Diff, "\n") {
		end := strings.TrimPrefix(line, strings.TrimSuffix(line, "\n"))
		text := options.Printable(line)
		if escape := escapes(line); colour && escape != "" {
			text = "\x1b[" + escape + "m" + text + "\x1b[0m"
		}
		if _, err := io.WriteString(w, text+end); err != nil {
			return fmt.Errorf("printing a diff: %w", err)
		}
	}
	return nil
}

// escapes returns the parameters of the colour of a line.
func escapes(line string) string {
	switch {
	case strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"):
		return "1"
	case strings.HasPrefix(line, "+"):
		return "32"
	case strings.HasPrefix(line, "-"):
		return "31"
	case strings.HasPrefix(line, "@@"):
		return "36"
	default:
		return ""
	}
}

// written returns the template of a set in the form of a revision, so that only real changes differ.
func written(set *resolver.Set) (map[string]any, error) {
	template, _, err := unstructured.NestedMap(set.Object.Object, "spec", "template")
	if err != nil {
		return nil, fmt.Errorf("%s: reading its template: %w", set, err)
	}
	data, err := revision.Data(template)
	if err != nil {
		return nil, fmt.Errorf("%s: reading its template: %w", set, err)
	}
	return revision.Decode(data)
}
