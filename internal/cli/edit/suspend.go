// SPDX-License-Identifier: Apache-2.0

package edit

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/cli/change"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/policies"
	"everynode.dev/everynode/internal/cli/resolver"
	"everynode.dev/everynode/internal/policy"
)

func newSuspend(o *options.Options) *cobra.Command {
	v := &verb{Options: o}
	c := &cobra.Command{
		Use:   "suspend NAME",
		Short: "Suspend a rollout policy: start no further updates",
		Long: lines("Suspend a rollout policy: start no further updates of the sets that it applies to. Updates that have started are finished, and missing pods",
			"are still created. Soaks continue.",
			"", "NAME is a set, which means the policy that applies to it, or the name of a policy: NAME, if no set has it, or rolloutpolicy/NAME. It sets spec.suspend of the RolloutPolicy to true."),
		Example: lines("  # Suspend the policy of a set", "  kubectl everynode suspend ads/agent", "",
			"  # Suspend a policy by its name, and resume it", "  kubectl everynode suspend rolloutpolicy/agents", "  kubectl everynode resume rolloutpolicy/agents"),
	}
	return v.policyCommand(c, v.suspend)
}

// policyCommand completes a command for the name of a set or of a policy.
func (v *verb) policyCommand(c *cobra.Command, run func(ctx context.Context, c *options.Clients, arg string) error) *cobra.Command {
	c.Args = options.Arguments(1, policies.Argument("NAME"))
	c.ValidArgsFunction = policies.Complete(v.Options)
	c.Long += "\n\n" + options.ExitText
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := v.Flags.Validate(); err != nil {
			return err
		}
		clients, err := v.Clients()
		if err != nil {
			return err
		}
		return run(cmd.Context(), clients, args[0])
	}
	v.Flags.Add(c)
	return c
}

func (v *verb) suspend(ctx context.Context, c *options.Clients, arg string) error {
	p, about, err := v.policyOf(ctx, c, arg)
	if err != nil {
		return err
	}
	if err := v.Changes(p.String()); err != nil {
		return err
	}
	return v.setSuspended(ctx, c, p, suspension{about: about, suspend: true})
}

// policyOf returns the policy that arg names, or that applies to the set that arg names; the set is nil in the first case.
func (v *verb) policyOf(ctx context.Context, c *options.Clients, arg string) (*policies.Policy, *resolver.Set, error) {
	p, set, err := policies.Find(ctx, c, arg)
	if err != nil || p != nil {
		return p, nil, err
	}
	p, err = policies.One(ctx, c, set)
	return p, set, err
}

// suspension is a change of spec.suspend; about is the set that the user named, or nil.
type suspension struct {
	about   *resolver.Set
	suspend bool
}

// setSuspended changes spec.suspend of a policy.
func (v *verb) setSuspended(ctx context.Context, c *options.Clients, p *policies.Policy, s suspension) error {
	done := "suspended"
	if !s.suspend {
		done = "resumed"
	}
	object := change.Object{Resource: policies.Resource(), Read: p.Object}
	result, err := change.Patch(ctx, c, change.Request{Object: object, Flags: v.Flags, Edit: func(object *unstructured.Unstructured) error {
		if was, _, _ := unstructured.NestedBool(object.Object, "spec", "suspend"); was == s.suspend {
			return nil // absent is the same as false
		}
		return unstructured.SetNestedField(object.Object, s.suspend, "spec", "suspend")
	}})
	if err != nil {
		return err
	}
	if err := change.Report(v.Options, v.Flags, change.Outcome{Object: object, Result: result, Done: done}); err != nil {
		return err
	}
	v.affected(p, s.about)
	return nil
}

// affected names the sets that a policy applies to, and those of them on which it has no effect.
func (v *verb) affected(p *policies.Policy, about *resolver.Set) {
	var others []string
	all := p.Sets()
	for i := range p.Typed.Status.Sets {
		st := &p.Typed.Status.Sets[i]
		if about == nil || about.Name() != st.Name || policies.SetOf(about).APIVersion() != st.APIVersion {
			others = append(others, all[i])
		}
	}
	switch names := strings.Join(others, ", "); {
	case about == nil && names == "":
		v.note("%s reports no daemon set that it applies to", p)
	case about == nil:
		v.note("%s applies to %s", p, names)
	case names != "":
		v.note("%s also applies to %s", p, names)
	}
	for i := range p.Typed.Status.Sets {
		st := &p.Typed.Status.Sets[i]
		why := ""
		for _, b := range st.Blocking {
			why += " " + b.Message
			if b.Reason == policy.SeveralPolicies && st.Enforcement != v1alpha1.EnforcementNone {
				v.note("spec.suspend of %s has no effect on %s, because nothing starts there anyway. %s", p, all[i], b.Message)
			}
		}
		if st.Enforcement != v1alpha1.EnforcementNone {
			continue
		}
		v.note("%s has no effect on %s (enforcement None).%s", p, all[i], why)
	}
}
