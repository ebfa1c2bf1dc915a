// SPDX-License-Identifier: Apache-2.0

package options

import (
	"context"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// addCompletions registers shell completion for the common flags.
func (o *Options) addCompletions(cmd *cobra.Command) {
	for flag, values := range map[string]func(ctx context.Context) []string{
		"output":    func(context.Context) []string { return Outputs() },
		"namespace": o.namespaces,
		"context":   o.contexts,
	} {
		complete := func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return values(cmd.Context()), cobra.ShellCompDirectiveNoFileComp
		}
		if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
			panic(err) // the flag does not exist: every test that creates a command finds this
		}
	}
}

// MostWords limits the objects that completion requests: shells show few, and a large cluster must not be read at each
// key press.
const MostWords = 500

// namespaces returns the namespaces of the cluster, or none if they cannot be listed.
func (o *Options) namespaces(ctx context.Context) []string {
	c, err := o.Clients()
	if err != nil {
		return nil
	}
	list, err := c.Kubernetes.CoreV1().Namespaces().List(ctx, metav1.ListOptions{Limit: MostWords})
	if err != nil {
		return nil
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	slices.Sort(names)
	return names
}

// contexts returns the contexts of the kubeconfig.
func (o *Options) contexts(context.Context) []string {
	config, err := o.ConfigFlags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(config.Contexts))
}
