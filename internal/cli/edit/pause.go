// SPDX-License-Identifier: Apache-2.0

package edit

import (
	"context"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/policies"
	"everynode.dev/everynode/internal/cli/resolver"
)

func newPause(o *options.Options) *cobra.Command {
	v := &verb{Options: o}
	return v.command(&cobra.Command{
		Use:   "pause NAME",
		Short: "Start no further updates",
		Long: lines("Start no further updates. Updates that have started are finished, and missing pods are still created.",
			"", "It sets spec.updateStrategy.rollingUpdate.paused of an Advanced DaemonSet. A DaemonSet of apps/v1 has no such field."),
		Example: lines("  # Stop the rollout of the Advanced DaemonSet agent", "  kubectl everynode pause ads/agent"),
		Args:    options.Arguments(1, resolver.Argument("NAME")),

		ValidArgsFunction: resolver.CompleteAdvanced(o),
	}, func(ctx context.Context, c *options.Clients, set *resolver.Set, _ []string) error {
		return v.setPaused(ctx, c, set, true)
	})
}

func newResume(o *options.Options) *cobra.Command {
	v := &verb{Options: o}
	c := &cobra.Command{
		Use:   "resume NAME",
		Short: "Resume a paused update, or a suspended rollout policy",
		Long: lines("Resume a paused update: sets spec.updateStrategy.rollingUpdate.paused of an Advanced DaemonSet to false. A partition and a canary still apply.",
			"", "If the rollout policy of the set is suspended, it is resumed too: sets spec.suspend of the RolloutPolicy to false. rolloutpolicy/NAME resumes a policy",
			"by its name."),
		Example: lines("  # Resume the rollout of the Advanced DaemonSet agent", "  kubectl everynode resume ads/agent", "",
			"  # Resume a suspended policy", "  kubectl everynode resume rolloutpolicy/agents"),
	}
	return v.policyCommand(c, v.resume)
}

// resume resumes a policy, or a set and its policy.
func (v *verb) resume(ctx context.Context, c *options.Clients, arg string) error {
	p, set, err := policies.Find(ctx, c, arg)
	if err != nil {
		return err
	}
	if p != nil {
		return v.setSuspended(ctx, c, p, suspension{})
	}
	all, unread := policies.Optional(ctx, c, set)
	if unread != "" {
		v.note("%s", unread)
	}
	all = slices.DeleteFunc(all, func(p *policies.Policy) bool { return set.Advanced() && !p.Typed.Spec.Suspend })
	paused, _, _ := unstructured.NestedBool(set.Object.Object, rolling(fieldPaused)...)
	own := paused || len(all) == 0
	var objects []string
	if own {
		objects = append(objects, set.String())
	}
	for _, p := range all {
		objects = append(objects, p.String())
	}
	if err := v.Changes(objects...); err != nil {
		return err
	}
	if own {
		if err := v.setPaused(ctx, c, set, false); err != nil {
			return err
		}
	}
	for _, p := range all {
		if err := v.setSuspended(ctx, c, p, suspension{about: set}); err != nil {
			return err
		}
	}
	return nil
}

func (v *verb) setPaused(ctx context.Context, c *options.Clients, set *resolver.Set, paused bool) error {
	what, done := "pause an update", "paused"
	if !paused {
		what, done = "resume an update", "resumed"
	}
	if err := requireRolling(set, what); err != nil {
		return err
	}
	err := v.patch(ctx, c, step{set, done, func(object *unstructured.Unstructured) error {
		if was, _, _ := unstructured.NestedBool(object.Object, rolling(fieldPaused)...); was == paused {
			return nil // absent is the same as false
		}
		return unstructured.SetNestedField(object.Object, paused, rolling(fieldPaused)...)
	}})
	if err == nil && !paused {
		v.warnPartition(set)
		v.warnCanary(set)
	}
	return err
}
