// SPDX-License-Identifier: Apache-2.0

package edit

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/policies"
	"everynode.dev/everynode/internal/cli/resolver"
	"everynode.dev/everynode/internal/revision"
)

func newUndo(o *options.Options) *cobra.Command {
	v, number := &verb{Options: o}, int64(0)
	v.check = func([]string) error {
		if number < 0 {
			return options.Usagef("--to-revision is %d: use a number of the history, or 0 for the previous revision", number)
		}
		return nil
	}
	c := v.command(&cobra.Command{
		Use:   "undo NAME [--to-revision N]",
		Short: "Restore an earlier template",
		Long: lines("Restore an earlier template: that of the newest revision whose template differs from the current one, or that of a given revision.",
			"It rolls out like any other template, so a pause, a partition and a canary hold it back. Under a rollout policy, nodes return to the committed revision without",
			"waves, soaks and approvals; any other revision starts at the first wave."),
		Example: lines("  # Back to the previous revision", "  kubectl everynode undo ads/agent", "",
			"  # Back to revision 3 of the history; show only what would change", "  kubectl everynode undo ads/agent --to-revision 3 --dry-run"),
		Args: options.Arguments(1, resolver.Argument("NAME")),
	}, func(ctx context.Context, c *options.Clients, set *resolver.Set, _ []string) error {
		return v.undo(ctx, c, set, number)
	})
	c.Flags().Int64Var(&number, "to-revision", 0, "The revision to go back to; 0 is the previous one.")
	if err := c.RegisterFlagCompletionFunc("to-revision", v.completeRevisions); err != nil {
		panic(err) // the flag does not exist: every test that creates a command finds this
	}
	return c
}

func (v *verb) undo(ctx context.Context, c *options.Clients, set *resolver.Set, number int64) error {
	all, err := inspect.Revisions(ctx, c, set)
	if err != nil {
		return err
	}
	chosen, template, err := chooseRevision(all, set, number)
	if err != nil {
		return err
	}
	v.Exactly("to-revision", strconv.FormatInt(chosen.Revision, 10))
	done := fmt.Sprintf("rolled back to revision %d", chosen.Revision)
	err = v.patch(ctx, c, step{set, done, func(object *unstructured.Unstructured) error {
		if now, _, _ := unstructured.NestedMap(object.Object, "spec", "template"); revision.Same(now, template) {
			return nil
		}
		return unstructured.SetNestedMap(object.Object, template, "spec", "template")
	}})
	if err == nil {
		v.warnHeldBack(set)
		v.warnWaves(ctx, c, set, chosen.Name)
	}
	return err
}

// warnWaves prints how the rollout policy of a set rolls out a revision: nodes return to the committed one at once, and get another one in waves, also if it is older.
func (v *verb) warnWaves(ctx context.Context, c *options.Clients, set *resolver.Set, revision string) {
	all, err := policies.Of(ctx, c, set)
	if err != nil || len(all) != 1 || len(all[0].Rules.Problems) > 0 {
		return // the status of the set shows each of them
	}
	p := all[0]
	st := p.Status(set)
	if st == nil || st.Enforcement == v1alpha1.EnforcementNone || st.CommittedRevision == revision {
		return
	}
	var waves, approvals []string
	for k := range p.Rules.Waves {
		w := &p.Rules.Waves[k]
		if waves = append(waves, w.Name); w.Approval {
			approvals = append(approvals, w.Name)
		}
	}
	text := fmt.Sprintf("%s rolls this out like any other revision, because it is not the committed one (waves: %s)", p, strings.Join(waves, ", "))
	if len(approvals) > 0 {
		text += fmt.Sprintf("; these waves need an approval: %s, with `%s approve %s`", strings.Join(approvals, ", "), options.Program, set)
	}
	v.note("%s", text)
}

// chooseRevision returns the revision to go back to, and its template. The previous revision is found by comparing
// templates, because there may be no revision yet for the current template.
func chooseRevision(all []appsv1.ControllerRevision, set *resolver.Set, number int64) (*appsv1.ControllerRevision, map[string]any, error) {
	now, _, err := unstructured.NestedMap(set.Object.Object, "spec", "template")
	if err != nil {
		return nil, nil, fmt.Errorf("%s: reading its template: %w", set, err)
	}
	for i := range all {
		one := &all[i]
		if number != 0 && one.Revision != number {
			continue
		}
		template, err := revision.Decode(one.Data.Raw)
		if err != nil {
			return nil, nil, fmt.Errorf("revision %d of %s (%s): %w", one.Revision, set, one.Name, err)
		}
		if number != 0 || !revision.Same(now, template) {
			return one, template, nil
		}
	}
	if number != 0 {
		return nil, nil, fmt.Errorf("%s has no revision %d: it has %s", set, number, numbers(all))
	}
	return nil, nil, fmt.Errorf("%s has no revision whose template differs from the current one: there is nothing to go back to", set)
}

// numbers lists the numbers of revisions, oldest first.
func numbers(all []appsv1.ControllerRevision) string {
	if len(all) == 0 {
		return "none"
	}
	var texts []string
	for i := range all {
		texts = append(texts, strconv.FormatInt(all[len(all)-1-i].Revision, 10))
	}
	return strings.Join(slices.Compact(texts), ", ")
}

func (v *verb) completeRevisions(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var texts []string
	if len(args) > 0 {
		if c, err := v.Clients(); err == nil {
			if set, err := resolver.Find(cmd.Context(), c, args[0]); err == nil {
				all, _ := inspect.Revisions(cmd.Context(), c, set)
				for i := range all {
					texts = append(texts, strconv.FormatInt(all[i].Revision, 10))
				}
			}
		}
	}
	return texts, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}
