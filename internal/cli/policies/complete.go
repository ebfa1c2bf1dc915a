// SPDX-License-Identifier: Apache-2.0

package policies

import (
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
