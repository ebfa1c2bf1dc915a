// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"slices"
	"strings"

	"everynode.dev/everynode/internal/dialect"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialects"
)

// kind is the kind of a set as written by the user.
type kind uint8

const (
	anyKind kind = iota
	nativeKind
	advancedKind
)

// reference is the name of a set as written by the user.
type reference struct {
	kind kind
	name string
}

// kinds returns the words for the kinds, as in kubectl.
func kinds() map[string]kind {
	return map[string]kind{
		"daemonset": nativeKind, "daemonsets": nativeKind, "ds": nativeKind,
		"daemonset.apps": nativeKind, "daemonsets.apps": nativeKind, "ds.apps": nativeKind,
		"ads": advancedKind, "advanceddaemonset": advancedKind, "advanceddaemonsets": advancedKind,
		"daemonset.apps.kruise.io": advancedKind, "daemonsets.apps.kruise.io": advancedKind, "ads.apps.kruise.io": advancedKind,
		"daemon": advancedKind, "daemon.apps.kruise.io": advancedKind,
	}
}

func parse(arg string) (reference, error) {
	word, name, slashed := strings.Cut(arg, "/")
	if !slashed {
		word, name = "", arg
	}
	if name == "" || slashed && word == "" || strings.Contains(name, "/") {
		return reference{}, options.Usagef("%q does not name a daemon set: write NAME, daemonset/NAME or ads/NAME", arg)
	}
	if !slashed {
		return reference{name: name}, nil
	}
	k, known := kinds()[strings.ToLower(word)]
	if !known {
		return reference{}, options.Usagef("%q is not a kind of daemon set: write daemonset/%s for one of apps/v1, or ads/%s for one of apps.kruise.io", word, name, name)
	}
	return reference{kind: k, name: name}, nil
}

// Split returns the name in arg, and whether arg names an Advanced DaemonSet.
func Split(arg string) (name string, advanced bool, err error) {
	ref, err := parse(arg)
	return ref.name, ref.kind == advancedKind, err
}

// Key returns the key of the set that arg names with its kind, as daemonset/NAME or ads/NAME.
func Key(namespace, arg string) (clustercache.Key, error) {
	ref, err := parse(arg)
	if err != nil {
		return clustercache.Key{}, err
	}
	for _, d := range dialects.Onlookers() {
		if ref.kind != anyKind && ref.matches(d) {
			return clustercache.Key{Dialect: d.Source.Dialect, Namespace: namespace, Name: ref.name}, nil
		}
	}
	return clustercache.Key{}, options.Usagef("%q does not name the kind of a daemon set: write daemonset/%s or ads/%s", arg, ref.name, ref.name)
}

// Argument is the argument for the name of a set. Word is its placeholder in the help.
func Argument(word string) options.Argument {
	return options.Argument{Word: word, What: "the name of a daemon set", Check: func(text string) error {
		_, err := parse(text)
		return err
	}}
}

// matches reports whether the reference may be to a set of the dialect.
func (r reference) matches(d dialect.Dialect) bool {
	if d.Source.Dialect == dialects.Kruise {
		return r.kind != nativeKind
	}
	return r.kind != advancedKind
}

// Complete completes the name of a set as the first argument.
func Complete(o *options.Options) cobra.CompletionFunc {
	return first(func(cmd *cobra.Command) []string { return Names(cmd, o) })
}

// CompleteAdvanced is Complete for commands that require an Advanced DaemonSet.
func CompleteAdvanced(o *options.Options) cobra.CompletionFunc {
	return first(func(cmd *cobra.Command) []string {
		return names(cmd, o, func(s *Set, _ bool) bool { return s.Advanced() })
	})
}

func first(names func(cmd *cobra.Command) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return names(cmd), cobra.ShellCompDirectiveNoFileComp
	}
}

// Names returns all ways to name the sets of the namespace, for completion: a name without a kind if it is unique.
func Names(cmd *cobra.Command, o *options.Options) []string {
	return names(cmd, o, func(*Set, bool) bool { return true })
}

// WithKind returns the names with kinds of the sets of the namespace, for completion: of all, or only of Advanced
// DaemonSets.
func WithKind(cmd *cobra.Command, o *options.Options, advancedOnly bool) []string {
	return names(cmd, o, func(s *Set, bare bool) bool { return !bare && (s.Advanced() || !advancedOnly) })
}

// names returns the names of the wanted sets: without or with their kind.
func names(cmd *cobra.Command, o *options.Options, wanted func(s *Set, bare bool) bool) []string {
	c, err := o.Clients()
	if err != nil {
		return nil
	}
	sets, err := List(cmd.Context(), c, false)
	if err != nil {
		return nil
	}
	uses := map[string]int{}
	for _, s := range sets {
		uses[s.Name()]++
	}
	var all []string
	for _, s := range sets {
		if uses[s.Name()] == 1 && wanted(s, true) {
			all = append(all, s.Name())
		}
		if wanted(s, false) {
			all = append(all, s.String())
		}
	}
	slices.Sort(all)
	return all
}

// Containers returns the names of the containers in the template of a set.
func Containers(set *unstructured.Unstructured) []string {
	var names []string
	for _, list := range []string{"initContainers", "containers"} {
		containers, _, _ := unstructured.NestedSlice(set.Object, "spec", "template", "spec", list)
		for _, one := range containers {
			container, _ := one.(map[string]any)
			if name, ok := container["name"].(string); ok {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// CompleteContainers completes CONTAINER=IMAGE with the containers of the set in the first argument.
func CompleteContainers(o *options.Options) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 || strings.Contains(word, "=") {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []string
		if c, err := o.Clients(); err == nil {
			if set, err := Find(cmd.Context(), c, args[0]); err == nil {
				for _, name := range Containers(set.Object) {
					names = append(names, name+"=")
				}
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}
