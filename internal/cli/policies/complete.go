// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/resolver"
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
	if missing := (*resolver.Missing)(nil); errors.As(err, &missing) && !strings.Contains(arg, "/") {
		if p, other := Get(ctx, c, arg); other == nil {
			return p, nil, nil
		}
	}
	return nil, set, err //nolint:wrapcheck // it names the set
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
