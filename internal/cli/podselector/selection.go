// SPDX-License-Identifier: Apache-2.0

// Package podselector finds the pods that a user selects by nodes, pods and sets.
//
// An argument is node/NAME, pod/NAME, daemonset/NAME or ads/NAME. A name without a slash is the name of a node or of a
// pod or, if neither exists, of a set. The result has the pods of all named nodes and pods; a set restricts it.
package podselector

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/resolver"
)

// Selection is a parsed list of arguments.
type Selection struct {
	// Set is daemonset/NAME or ads/NAME, or empty.
	Set string
	// Bare is the name of the set if it was written without its kind.
	Bare string
	// places are nodes and pods, as they were written.
	places []place
}

type place struct {
	word, name string
	node, pod  bool // the possible kinds
}

// Parse parses arguments.
func Parse(args []string) (Selection, error) {
	w := Selection{}
	for _, arg := range args {
		kind, name, slashed := strings.Cut(arg, "/")
		if !slashed {
			kind, name = "", arg
		}
		if name == "" || slashed && kind == "" {
			return Selection{}, options.Usagef("%q names nothing: write a node, a pod, node/NAME, pod/NAME, daemonset/NAME or ads/NAME", arg)
		}
		switch strings.ToLower(kind) {
		case "":
			w.places = append(w.places, place{arg, name, true, true})
		case "node", "nodes", "no":
			w.places = append(w.places, place{arg, name, true, false})
		case "pod", "pods", "po":
			w.places = append(w.places, place{arg, name, false, true})
		default:
			if w.Set != "" {
				return Selection{}, options.Usagef("%s and %s are two sets: name one", w.Set, arg)
			}
			w.Set = arg
		}
	}
	return w, nil
}

// Empty reports whether no node and no pod is named.
func (w Selection) Empty() bool { return len(w.places) == 0 }

// Names returns the arguments for nodes and pods.
func (w Selection) Names() []string {
	var names []string
	for _, p := range w.places {
		names = append(names, p.word)
	}
	return names
}

// Matches reports whether the pod is selected, and by which argument. If no node and no pod is named, all pods are.
func (w Selection) Matches(pod *corev1.Pod) (word string, meant bool) {
	for _, p := range w.places {
		if p.pod && pod.Name == p.name || p.node && pod.Spec.NodeName == p.name {
			return p.word, true
		}
	}
	return "", w.Empty()
}

// Sets returns the selected sets: the named one, or all of the namespace.
func (w Selection) Sets(ctx context.Context, c *options.Clients, everywhere bool) ([]*resolver.Set, error) {
	if w.Set == "" {
		return resolver.List(ctx, c, everywhere)
	}
	set, err := resolver.Find(ctx, c, w.Set)
	if err != nil {
		return nil, err
	}
	return []*resolver.Set{set}, nil
}

// Readable is Sets with a note for a kind that may not be listed.
func (w Selection) Readable(ctx context.Context, o *options.Options, c *options.Clients, everywhere bool) ([]*resolver.Set, error) {
	if w.Set == "" {
		return resolver.Readable(ctx, o, c, everywhere)
	}
	return w.Sets(ctx, c, everywhere)
}

// PodsOf returns the pods that a set controls, sorted by node and name.
func PodsOf(ctx context.Context, c *options.Clients, set *resolver.Set) ([]*corev1.Pod, error) {
	selector, err := Selector(set)
	if err != nil {
		return nil, err
	}
	list, err := c.Kubernetes.CoreV1().Pods(set.Namespace()).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return nil, options.Explain(err, options.Request{Verb: "list", Resource: corev1.Resource("pods"), Namespace: set.Namespace()})
	}
	var own []*corev1.Pod
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], set.Object) {
			own = append(own, &list.Items[i])
		}
	}
	slices.SortFunc(own, func(a, b *corev1.Pod) int {
		if byNode := strings.Compare(a.Spec.NodeName, b.Spec.NodeName); byNode != 0 {
			return byNode
		}
		return strings.Compare(a.Name, b.Name)
	})
	return own, nil
}

// Selector returns the selector of a set.
func Selector(set *resolver.Set) (labels.Selector, error) {
	raw, _, _ := unstructured.NestedMap(set.Object.Object, "spec", "selector")
	typed := &metav1.LabelSelector{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, typed); err != nil {
		return nil, fmt.Errorf("the selector of %s cannot be read: %w", set, err)
	}
	selector, err := metav1.LabelSelectorAsSelector(typed)
	if err != nil {
		return nil, fmt.Errorf("the selector of %s cannot be read: %w", set, err)
	}
	return selector, nil
}
