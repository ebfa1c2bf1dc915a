// SPDX-License-Identifier: Apache-2.0

package podselector

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/resolver"
)

// Narrow resolves a bare name of a set, if there is no node and no pod of that name. It returns the arguments and the
// selected sets. With all, the remaining arguments must not be nodes or pods.
func (w Selection) Narrow(ctx context.Context, c *options.Clients, sets []*resolver.Set, all bool) (Selection, []*resolver.Set, error) {
	meant, kind := sets, w.Set != ""
	for _, p := range w.places {
		named := slices.DeleteFunc(slices.Clone(sets), func(s *resolver.Set) bool { return s.Name() != p.name || s.Namespace() != c.Namespace })
		if kind || !p.node || !p.pod || len(named) == 0 {
			continue
		}
		what, err := taken(ctx, c, p.name)
		switch {
		case err != nil:
			return Selection{}, nil, err
		case what != "" && !all:
			continue // unchanged
		case what != "":
			return Selection{}, nil, options.Usagef("%s is the name of a %s as well as of %s: write %s for all pods of that set, or leave --all out", p.name, what, named[0], named[0])
		case w.Set != "":
			return Selection{}, nil, options.Usagef("%s and %s are two sets: name one", w.Set, named[0])
		case len(named) > 1:
			return Selection{}, nil, options.Usagef("there are two daemon sets %s in namespace %s: write %s or %s", p.name, c.Namespace, named[0], named[1])
		}
		w.Set, w.Bare, meant = named[0].String(), p.name, named
		w.places = slices.DeleteFunc(slices.Clone(w.places), func(other place) bool { return other == p })
	}
	if all && !w.Empty() {
		return Selection{}, nil, notBoth(w)
	}
	return w, meant, nil
}

// taken returns whether a name belongs to a node or to a pod, or "". A user without the right to read nodes must write
// the kind.
func taken(ctx context.Context, c *options.Clients, name string) (string, error) {
	_, err := c.Kubernetes.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil:
		return "node", nil
	case apierrors.IsForbidden(err):
		return "", options.Usagef("%s is the name of a set, and it is not known whether there is a node with that name: write daemonset/%s, ads/%s or node/%s: %w", name, name, name, name, err)
	case !apierrors.IsNotFound(err):
		return "", options.Explain(err, options.Request{Verb: "get", Resource: corev1.Resource("nodes"), Name: name})
	}
	_, err = c.Kubernetes.CoreV1().Pods(c.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil:
		return "pod", nil
	case apierrors.IsNotFound(err):
		return "", nil
	default:
		return "", options.Explain(err, options.Request{Verb: "get", Resource: corev1.Resource("pods"), Namespace: c.Namespace, Name: name})
	}
}
