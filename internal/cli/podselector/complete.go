// SPDX-License-Identifier: Apache-2.0

package podselector

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/resolver"
)

// NotBoth returns an error if --all is combined with arguments that name nodes and pods: one of them would be ignored.
// A bare name may be a set, which Narrow resolves.
func NotBoth(all bool, args []string) error {
	words, err := Parse(args)
	if err != nil || !all {
		return err
	}
	words.places = slices.DeleteFunc(words.places, func(p place) bool { return p.node && p.pod })
	if words.Empty() {
		return nil
	}
	return notBoth(words)
}

// The error of notBoth does not suggest to omit the arguments: then all pods of all sets would be selected.
func notBoth(w Selection) error {
	return options.Usagef("--all selects all pods of one set, or of all sets, and takes no nodes or pods: leave --all out, or write daemonset/NAME or ads/NAME in place of %s",
		strings.Join(w.Names(), " and "))
}

// Complete completes arguments: the names of nodes, and of sets with their kind until one is given.
func Complete(o *options.Options, advancedOnly bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		var names []string
		if words, err := Parse(args); err == nil && words.Set == "" {
			names = resolver.WithKind(cmd, o, advancedOnly)
		}
		return slices.Concat(names, Nodes(cmd, o)), cobra.ShellCompDirectiveNoFileComp
	}
}

// Nodes returns the names of the nodes, for completion.
func Nodes(cmd *cobra.Command, o *options.Options) []string {
	c, err := o.Clients()
	if err != nil {
		return nil
	}
	list, err := c.Kubernetes.CoreV1().Nodes().List(cmd.Context(), metav1.ListOptions{Limit: options.MostWords})
	if err != nil {
		return nil
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}
