// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/api/openyurt"
	"everynode.dev/everynode/internal/cli/change"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/resolver"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// New returns the command policy, with its subcommands.
func New(o *options.Options) *cobra.Command {
	c := &cobra.Command{
		Use:   "policy",
		Short: "Write a rollout policy",
		Long: "Write a rollout policy: in which waves new revisions reach the nodes, how long each wave is observed, who approves, and when updates may start.\n\n" +
			options.ExitText,
		Example: "  kubectl everynode policy init ads/agent --canary 3 --soak 30m --approval >policy.yaml",
		Args:    options.Arguments(0),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(newInit(o))
	return c
}

// asked are the flags of policy init.
type asked struct {
	*options.Options
	name, window, zone, spreadBy string
	canary, percent              int32
	soak, windowDuration         time.Duration
	approval                     bool
	// percentGiven reports whether the user has chosen the percentage.
	percentGiven bool
}

const initLong = `Write a RolloutPolicy for a daemon set to the standard output, as YAML. Nothing is changed, and no questions are asked.

The policy has three waves: some nodes as a canary, a percentage of all nodes, and the rest. After each of the first two, the nodes are observed for the
soak; with --approval, a person must also approve the canary. Without --percent, the percentage is as high as necessary for a node beyond the canary.
Review the file, change it as you need, and apply it with kubectl apply -f. NAME is daemonset/NAME, or ads/NAME for an Advanced DaemonSet; a name alone is
enough if only one of the two has it.

` + options.ExitText

const initExample = `  # A canary of one node, then 10% of the nodes, then all, with 30 minutes after each of the first two
  kubectl everynode policy init ads/agent >policy.yaml
  kubectl apply -f policy.yaml

  # Three nodes of different types, an hour, and an approval; only at night in Berlin
  kubectl everynode policy init daemonset/agent --canary 3 --spread-by node.kubernetes.io/instance-type --soak 1h --approval --window '0 22 * * 1-4' --window-duration 6h --time-zone Europe/Berlin`

// The defaults of the flags.
const (
	defaultCanary  = 1
	defaultPercent = 10
	defaultSoak    = 30 * time.Minute
)

// Manifest is the policy that policy init writes for a set without flags.
func Manifest(set *resolver.Set) string {
	return (&asked{canary: defaultCanary, percent: defaultPercent, soak: defaultSoak}).manifest(set)
}

func newInit(o *options.Options) *cobra.Command {
	a := &asked{Options: o}
	c := &cobra.Command{
		Use:               "init NAME",
		Short:             "Write a rollout policy for a daemon set to the standard output",
		Long:              initLong,
		Example:           initExample,
		Args:              options.Arguments(1, resolver.Argument("NAME")),
		ValidArgsFunction: resolver.Complete(o),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.percentGiven = cmd.Flags().Changed("percent")
			if err := a.check(cmd.Flags().Changed); err != nil {
				return err
			}
			return a.run(cmd.Context(), args[0])
		},
	}
	f := c.Flags()
	f.StringVar(&a.name, "name", "", "The name of the policy (default: the name of the set).")
	f.Int32Var(&a.canary, "canary", defaultCanary, "The number of nodes in the first wave; 0 for no canary.")
	f.StringVar(&a.spreadBy, "spread-by", "", "A label of nodes: the canaries are taken from nodes with different values of it.")
	f.Int32Var(&a.percent, "percent", defaultPercent, "The percentage of all nodes in the second wave, canaries included; 0 for no such wave.")
	a.soak, a.windowDuration = defaultSoak, 6*time.Hour
	f.Var(duration{&a.soak}, "soak", "How long a wave is observed before the next one begins.")
	f.BoolVar(&a.approval, "approval", false, "The wave after the canary needs an approval.")
	f.StringVar(&a.window, "window", "", "When updates may start, as a schedule of cron with five fields (default: always).")
	f.Var(duration{&a.windowDuration}, "window-duration", "How long the window is open.")
	f.StringVar(&a.zone, "time-zone", "", "The time zone of the window, for example Europe/Berlin (default: UTC).")
	onlyOnce(f)
	for _, flag := range []string{"name", "canary", "spread-by", "percent", "soak", "window", "window-duration", "time-zone"} {
		if err := c.RegisterFlagCompletionFunc(flag, cobra.NoFileCompletions); err != nil {
			panic(err) // the flag does not exist: every test that creates a command finds this
		}
	}
	return c
}

// check validates the flags.
func (a *asked) check(given func(flag string) bool) error {
	switch problems := validation.IsDNS1123Subdomain(a.name); {
	case a.name != "" && len(problems) > 0:
		return options.Usagef("--name %q is not the name of an object: %s", a.name, problems[0])
	case a.canary < 0:
		return options.Usagef("--canary %d is negative: write a number of nodes, or 0 for no canary", a.canary)
	case a.percent < 0 || a.percent > 100:
		return options.Usagef("--percent %d is not between 1 and 100: write a percentage, or 0 for no such wave", a.percent)
	case a.soak < 0:
		return options.Usagef("--soak %s is negative: %s", a.soak, durationRemedy)
	case a.approval && a.canary == 0:
		return options.Usagef("--approval is for the wave of the canary: leave it out, or write --canary 1")
	case a.spreadBy != "" && a.canary == 0:
		return options.Usagef("--spread-by is for the wave of the canary: leave it out, or write --canary 1")
	case a.window == "" && (given("window-duration") || given("time-zone")):
		return options.Usagef("--window-duration and --time-zone are for --window: add one, such as --window '0 22 * * 1-4'")
	case a.window == "":
		return nil
	}
	if _, err := policy.ReadWindow(a.window, a.windowDuration, a.zone); err != nil {
		return options.Usagef("--window: %w", err)
	}
	return nil
}

func (a *asked) run(ctx context.Context, arg string) error {
	c, err := a.Clients()
	if err != nil {
		return err
	}
	set, err := resolver.FindToChange(ctx, c, arg)
	if err != nil {
		return err
	}
	text := a.manifest(set)
	p := &v1alpha1.RolloutPolicy{}
	if err := yaml.UnmarshalStrict([]byte(text), p); err != nil {
		return fmt.Errorf("writing the policy: %w", err)
	}
	if problems := policy.Read(p).Problems; len(problems) > 0 {
		return options.Usagef("the policy cannot be followed: %s", strings.Join(problems, "; "))
	}
	document, err := plain(text)
	if err != nil {
		return err
	}
	err = a.Print(document, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
	if err != nil {
		return fmt.Errorf("printing the policy: %w", err)
	}
	a.others(ctx, c, set)
	return nil
}

// plain is the policy for programs, without a status.
func plain(text string) (any, error) {
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("writing the policy: %w", err)
	}
	var document map[string]any
	if err := json.Unmarshal(data, &document); err != nil {
		return nil, fmt.Errorf("writing the policy: %w", err)
	}
	return document, nil
}

// others warns if a second policy would apply to the set: then none of them can be followed.
func (a *asked) others(ctx context.Context, c *options.Clients, set *resolver.Set) {
	all, unread := Optional(ctx, c, set)
	switch {
	case unread != "":
		change.Note(a.Options, "%s", unread)
	case len(all) > 0 && Names(all) != a.nameFor(set):
		change.Note(a.Options, "%s applies to %s already: change that one, or its targets, because nothing starts if two policies apply to a set", all[0], set)
	}
}

func (a *asked) nameFor(set *resolver.Set) string {
	if a.name != "" {
		return a.name
	}
	return set.Name()
}

// manifest returns the policy as YAML text, with explanatory comments.
func (a *asked) manifest(set *resolver.Set) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("apiVersion: %s", v1alpha1.GroupVersion())
	line("kind: RolloutPolicy")
	line("metadata:\n  name: %s\n  namespace: %s", quoted(a.nameFor(set)), quoted(set.Namespace()))
	line("spec:\n  targets:\n  - apiVersion: %s\n    kind: DaemonSet\n    name: %s", SetOf(set).APIVersion(), quoted(set.Name()))
	switch {
	case !onDelete(set):
	case set.Advanced():
		line("  # The daemon set has the strategy OnDelete: change it to RollingUpdate to let the policy control updates.")
	default:
		line("  # The daemon set has the strategy OnDelete. Where Kubernetes creates its pods, the policy updates it with this budget. Where Everynode does, change the")
		line("  # strategy to RollingUpdate to let the policy control updates.")
		line("  pace:\n    maxUnavailable: 1")
	}
	a.waves(line, nodesOf(set))
	if a.window != "" {
		line("  # Updates start only while the window is open. Updates that have begun continue.")
		line("  windows:\n  - schedule: %s\n    duration: %s", quoted(a.window), span(a.windowDuration))
		if a.zone != "" {
			line("    timeZone: %s", quoted(a.zone))
		}
	}
	return b.String()
}

// onDelete is whether only users update the pods of a set, or a policy next to the controller of Kubernetes. The annotations of OpenYurt, which go with this
// strategy, have a budget of their own.
func onDelete(set *resolver.Set) bool {
	if openyurt.Asks(set.Object.GetAnnotations()) && !set.Advanced() {
		return false
	}
	strategy, _, _ := unstructured.NestedString(set.Object.Object, "spec", "updateStrategy", "type")
	return strategy == string(appsv1.OnDeleteDaemonSetStrategyType)
}

// waves writes the waves for a number of nodes; 0 if it is not known.
func (a *asked) waves(line func(format string, args ...any), nodes int) {
	line("  # The waves are updated one after the other. A node belongs to the first wave that matches it.")
	line("  waves:")
	if a.canary > 0 {
		line("  - name: canary\n    nodes:\n      count: %d", a.canary)
		if a.spreadBy != "" {
			line("      spreadBy: [%s]", quoted(a.spreadBy))
		}
		a.observe(line)
		if a.approval {
			line("    # A person approves with: kubectl everynode approve NAME")
			line("    after:\n    - type: Approval\n      remindAfter: 24h")
		}
	}
	percent, comment := a.share(nodes)
	if comment != "" {
		line("  # %s", comment)
	}
	if percent > 0 && percent < 100 {
		line("  - name: percent-%d\n    nodes:\n      percent: %d", percent, percent)
		a.observe(line)
	}
	line("  - name: rest\n    nodes:\n      percent: 100")
}

// share returns the percentage of the second wave, and a comment if the wave would observe nothing: percentages include the nodes of earlier waves, so 10% of 6 nodes are
// no more than a canary of one node. A percentage that the user has chosen is kept.
func (a *asked) share(nodes int) (percent int32, comment string) {
	had := func(percent int32) int { return rollout.Quantity{Value: int(percent), Percent: true}.Of(nodes) }
	canary := int(a.canary)
	if nodes == 0 || a.percent == 0 || a.percent == 100 || had(a.percent) > canary {
		return a.percent, ""
	}
	why := fmt.Sprintf("%d%% of the %d nodes of the daemon set are not more than the canary of %d", a.percent, nodes, canary)
	enough := int32(min(canary*100/nodes+1, 100)) //nolint:gosec // it is at most 100
	switch {
	case had(enough) >= nodes && a.percentGiven:
		return a.percent, why + ", so this wave has no node now and observes nothing."
	case had(enough) >= nodes:
		return 0, why + ", so there is no wave between the canary and the rest."
	case a.percentGiven:
		return a.percent, fmt.Sprintf("%s, so this wave has no node now and observes nothing: write %d or more.", why, enough)
	default:
		return enough, fmt.Sprintf("%s, so this wave has %d%%.", why, enough)
	}
}

// nodesOf returns how many nodes need a pod of the set, according to its status; 0 if that is not known.
func nodesOf(set *resolver.Set) int {
	n, _, _ := unstructured.NestedInt64(set.Object.Object, "status", "desiredNumberScheduled")
	return int(max(n, 0))
}

// observe writes the soak of a wave.
func (a *asked) observe(line func(format string, args ...any)) {
	if a.soak > 0 {
		line("    soak: %s", span(a.soak))
	}
}

// quoted is a string as YAML reads it back.
func quoted(text string) string {
	data, err := yaml.Marshal(text)
	if err != nil {
		return fmt.Sprintf("%q", text)
	}
	return strings.TrimSuffix(string(data), "\n")
}

// span is a duration in the shortest form that the API accepts: 30m, not 30m0s.
func span(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
