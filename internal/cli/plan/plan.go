// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/resolver"
	"everynode.dev/everynode/internal/cli/textdiff"
)

const planLong = `Show what would happen, node by node, if a daemon set were edited. Nothing is changed.

The edit is given by flags, or by a file as for kubectl apply. A dry run on the server sets defaults and validates it.
If you have no right to that, defaults are set locally, and the plan has a warning.
Then the decisions of the manager are simulated on a copy of the cluster, until nothing changes any more.

Every node gets one verdict: create, recreate, in-place, surge, remove, wait (the set itself, its budget or its rollout
policy holds the node back), blocked (something on the node blocks it) or leave. Its batch is its place in the order, divided by the
budget; no batch has nodes of two waves of a policy. For wait and blocked, the plan shows the reason that explain-node would show at the end.

If a rollout policy applies to the set, the plan follows it, and shows when each of its waves starts, is complete, and ends its soak. Where a wave needs an
approval, the times assume that it is given at once. --policy plans for a policy in a file: to see what it would do before you create it. A dry run on the server validates it, too.
--what-if plays a failure: which nodes a bad revision reaches before the policy or the budget stops it, and what happens then.

With -o json you can store and review the plan, and then apply it with: ` + options.Program + ` apply --plan FILE.
Without flags and a file, the plan shows the remaining work.

` + options.ExitText

const planExample = `  # What would a new image do?
  kubectl everynode plan ads/agent --image agent=registry.example/agent:2

  # The same on one node in ten first, for a program
  kubectl everynode plan ads/agent --image agent=registry.example/agent:2 --partition 90% -o json

  # What would this file do, on every node?
  kubectl everynode plan -f agent.yaml -o wide

  # What would it do under this rollout policy?
  kubectl everynode plan ads/agent --image agent=registry.example/agent:2 --policy policy.yaml

  # How far would it get if it crashed on every node?
  kubectl everynode plan ads/agent --image agent=registry.example/agent:2 --what-if 'failed=*'

  # Store a plan, and apply it if it is still valid
  kubectl everynode plan ads/agent --max-unavailable 10% -o json >plan.json
  kubectl everynode apply --plan plan.json`

// PolicyFlag is the flag with the policy to plan for. MadeBy takes the content of the file in its place.
const PolicyFlag = "policy"

// ImageFlag is the flag with an image, which can be repeated.
const ImageFlag = "image"

// ValuesOf returns the values of a flag in a map of flags, in which that of ImageFlag has one image on each line.
func ValuesOf(flag, value string) []string {
	if flag == ImageFlag {
		return strings.Split(value, "\n")
	}
	return []string{value}
}

// New returns the command plan.
func New(o *options.Options) *cobra.Command {
	a := &asked{}
	cmd := &cobra.Command{
		Use:               "plan (NAME | -f FILE) [flags]",
		Short:             "Show what an edit of a daemon set would do, node by node",
		Long:              planLong,
		Example:           planExample,
		Args:              options.Arguments(0, resolver.Argument("NAME")),
		ValidArgsFunction: resolver.Complete(o),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.given, a.args = changed(cmd), args
			a.times.read(cmd)
			if err := a.times.check(); err != nil {
				return err
			}
			return a.run(cmd.Context(), o)
		},
	}
	a.addFlags(cmd)
	cmd.Flags().BoolVar(&a.local, "local", false, "Set defaults locally, without a dry run on the server.")
	cmd.Flags().StringVar(&a.policy, PolicyFlag, "", "A file with a RolloutPolicy to plan for, in place of the one of the cluster; - is the standard input.")
	if err := cmd.MarkFlagFilename(PolicyFlag, "yaml", "yml", "json"); err != nil {
		panic(err) // the flag does not exist: every test that creates a command finds this
	}
	cmd.Flags().StringArrayVar(&a.whatIf, "what-if", nil, "failed=NODE,...: what if containers of the new revision crash on these nodes (* for all)? Can be repeated.")
	a.times.addFlags(cmd)
	a.complete(cmd, o)
	return cmd
}

// asked is a parsed command line.
type asked struct {
	editFlags
	times times
	local bool
	// policy is a file with a rollout policy.
	policy string
	// whatIf are the values of --what-if, and failed the nodes in them.
	whatIf, failed []string
	args           []string
}

func (w *editFlags) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&w.file, "filename", "f", "", "The wanted set, as for kubectl apply; - is the standard input.")
	f.StringArrayVar(&w.images, "image", nil, "CONTAINER=IMAGE: change the image of a container of the template; * means all containers. Can be repeated.")
	f.StringVar(&w.maxUnavailable, "max-unavailable", "", "Maximum number of nodes without an available pod at once: a number or a percentage.")
	f.StringVar(&w.maxSurge, "max-surge", "", "Maximum number of nodes with two pods at once: a number or a percentage.")
	f.StringVar(&w.strategy, "strategy", "", "RollingUpdate or OnDelete.")
	f.StringVar(&w.partition, "partition", "", "How many nodes keep their pod: a number or a percentage (Advanced DaemonSet only).")
	f.BoolVar(&w.paused, "paused", false, "Start no update (Advanced DaemonSet only).")
	f.StringVar(&w.selector, "selector", "", "Update only nodes with these labels; empty for all again (Advanced DaemonSet only).")
	f.BoolVar(&w.inPlace, "in-place", false, "Change pods in place where that is possible (Advanced DaemonSet only).")
	f.StringVar(&w.patch, "patch", "", "The edit as a merge patch in JSON; for DaemonSets of apps/v1 a strategic one.")
}

// complete registers shell completion for the flags. Flags without known values do not complete file names.
func (w *editFlags) complete(cmd *cobra.Command, o *options.Options) {
	known := map[string]cobra.CompletionFunc{
		"image":    resolver.CompleteContainers(o),
		"strategy": cobra.FixedCompletions([]string{"RollingUpdate", "OnDelete"}, cobra.ShellCompDirectiveNoFileComp),
	}
	for _, flag := range []string{"image", "strategy", "max-unavailable", "max-surge", "partition", "selector", "patch"} {
		values := known[flag]
		if values == nil {
			values = cobra.NoFileCompletions
		}
		if err := cmd.RegisterFlagCompletionFunc(flag, values); err != nil {
			panic(err) // the flag does not exist: every test that creates a command finds this
		}
	}
	if err := cmd.MarkFlagFilename("filename", "yaml", "yml", "json"); err != nil {
		panic(err) // the flag does not exist: every test that creates a command finds this
	}
}

// changed returns the edit flags that were given, except --filename.
func changed(cmd *cobra.Command) []string {
	var names []string
	edits := []string{"image", "max-unavailable", "max-surge", "strategy", "partition", "paused", "selector", "in-place", "patch"}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		for _, name := range edits {
			if f.Name == name {
				names = append(names, name)
			}
		}
	})
	return names
}

func (a *asked) run(ctx context.Context, o *options.Options) error {
	if err := a.validate(); err != nil {
		return err
	}
	c, err := o.Clients()
	if err != nil {
		return err
	}
	q, err := a.ask(ctx, o, c)
	if err != nil {
		return err
	}
	q.local, q.given, q.failed = a.local, a.times, a.failed
	if a.policy != "" {
		if err := q.policyFrom(o, c, a.policy); err != nil {
			return err
		}
	}
	f, err := predict(ctx, o, c, q)
	if err != nil {
		return err
	}
	diff, err := f.diff()
	if err != nil {
		return err
	}
	d := f.document(f.warnings(ctx, c), diff)
	return o.Print(d, func(w io.Writer) error { return show(w, o, d) })
}

// validate checks the command line, independent of the cluster.
func (a *asked) validate() (err error) {
	if a.failed, err = failedNodes(a.whatIf); err != nil {
		return err
	}
	switch {
	case a.file == "-" && a.policy == "-":
		return options.Usagef("--filename and --policy cannot both be the standard input: write one of them to a file")
	case a.file != "" && len(a.args) > 0:
		return options.Usagef("the file names the set: leave %s out", a.args[0])
	case a.file != "" && len(a.given) > 0:
		return options.Usagef("the file contains the whole edit: leave --%s out", a.given[0])
	case a.file == "" && len(a.args) == 0:
		return options.Usagef("name the set to plan for: NAME, or -f FILE")
	case a.file == "":
		return a.check()
	default:
		return nil
	}
}

// ask converts flags and arguments to a question.
func (a *asked) ask(ctx context.Context, o *options.Options, c *options.Clients) (question, error) {
	if a.file == "" {
		set, err := resolver.FindToRead(ctx, o, c, a.args[0])
		if err != nil {
			return question{}, err
		}
		e, err := a.edit(set)
		return question{live: set, named: set, edit: e, withoutEdit: len(a.given) == 0}, err
	}
	data, err := readFile(o, a.file)
	if err != nil {
		return question{}, err
	}
	wanted, err := manifest(data, c.Namespace)
	if err == nil {
		err = o.SameNamespace("the file", wanted.Namespace())
	}
	if err != nil {
		return question{}, err
	}
	return askFor(ctx, c, wanted)
}

// askFor returns the question for a set from a file.
func askFor(ctx context.Context, c *options.Clients, wanted *resolver.Set) (question, error) {
	live, err := existing(ctx, c, wanted)
	if err != nil {
		return question{}, err
	}
	q := question{live: live, named: wanted}
	if live != nil {
		q.named = live
	}
	q.edit, err = fromFile(live, wanted)
	return q, err
}

// diff returns the changes of the template.
func (f *prediction) diff() (string, error) {
	if f.before == f.after {
		return "", nil
	}
	from := "no template"
	if f.before != "" {
		from = "template of revision " + f.before
	}
	text, err := textdiff.Unified(from, "template of revision "+f.after, f.was, f.is)
	return strings.TrimSuffix(text, "\n"), err
}
