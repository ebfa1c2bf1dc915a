// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/resolver"
	"everynode.dev/everynode/internal/policy"
)

// Split returns the name of the policy in arg, if arg names one: rolloutpolicy/NAME, as in kubectl.
func Split(arg string) (name string, ok bool) {
	word, name, _ := strings.Cut(arg, "/")
	kinds := []string{"rolloutpolicy", "rolloutpolicies", "rop", "rolloutpolicy.everynode.dev", "rolloutpolicies.everynode.dev"}
	return name, name != "" && !strings.Contains(name, "/") && slices.Contains(kinds, strings.ToLower(word))
}

// Find returns the policy or the set that arg names, and nil for the other one. A NAME without a kind is a policy if there is no set with that name.
func Find(ctx context.Context, c *options.Clients, arg string) (*Policy, *resolver.Set, error) {
	if name, ok := Split(arg); ok {
		p, err := Get(ctx, c, name)
		return p, nil, err
	}
	set, err := resolver.FindToChange(ctx, c, arg)
	if missing := (*resolver.Missing)(nil); !errors.As(err, &missing) || strings.Contains(arg, "/") {
		return nil, set, err //nolint:wrapcheck // it names the set
	}
	p, other := Get(ctx, c, arg)
	if other != nil {
		return nil, nil, fmt.Errorf("%w, or a policy: see kubectl get rolloutpolicies", err)
	}
	return p, nil, nil
}

// FindToRead is Find for commands that read: the result is the set, or the only set of the policy.
func FindToRead(ctx context.Context, o *options.Options, c *options.Clients, arg string) (*resolver.Set, error) {
	p, missed := (*Policy)(nil), error(nil)
	if name, ok := Split(arg); ok {
		if p, missed = Get(ctx, c, name); missed != nil {
			return nil, missed
		}
	} else {
		set, err := resolver.FindToRead(ctx, o, c, arg)
		if missing := (*resolver.Missing)(nil); !errors.As(err, &missing) || strings.Contains(arg, "/") {
			return set, err //nolint:wrapcheck // it names the set
		}
		if p, missed = Get(ctx, c, arg); missed != nil {
			return nil, err //nolint:wrapcheck // it names the set
		}
	}
	name, err := p.OnlySet()
	if err != nil {
		return nil, err
	}
	return resolver.FindToRead(ctx, o, c, name) //nolint:wrapcheck // it names the set
}

// OnlySet is the set that the status of the policy names, as users name it in commands; an error if there is none or more than one.
func (p *Policy) OnlySet() (string, error) {
	switch sets := p.Sets(); len(sets) {
	case 0:
		if message, _ := policy.Kept(p.Typed.Status.Conditions); message != "" {
			return "", fmt.Errorf("%s applies to no daemon set: %s", p, message)
		}
		return "", fmt.Errorf("%s reports no daemon set that it applies to: name the daemon set", p)
	case 1:
		return sets[0], nil
	default:
		return "", fmt.Errorf("%s applies to %s: name one of them", p, strings.Join(sets, ", "))
	}
}

// Argument is the argument for a set or a policy.
func Argument(word string) options.Argument {
	set := resolver.Argument(word)
	return options.Argument{Word: word, What: "the name of a daemon set, or rolloutpolicy/NAME", Check: func(text string) error {
		if _, ok := Split(text); ok {
			return nil
		}
		return set.Check(text)
	}}
}

// Complete completes the name of a set or of a policy as the first argument.
func Complete(o *options.Options) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names := resolver.Names(cmd, o)
		if c, err := o.Clients(); err == nil {
			all, _ := List(cmd.Context(), c, c.Namespace) // without policies, there are only sets
			for _, p := range all {
				names = append(names, p.String())
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
