// SPDX-License-Identifier: Apache-2.0

package ota

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/internal/cli/change"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/view"
)

// maxNames is the maximum number of nodes in a note.
const maxNames = 4

// warnUnreachable lists nodes that are not reachable: the API server accepts the delete, but no kubelet carries it out.
// Without the right to read nodes there is no warning.
func (d *action) warnUnreachable(ctx context.Context, c *options.Clients, done []*candidate) {
	cut, err := unreachableNodes(ctx, c, nodesOf(done))
	if err != nil || len(cut) == 0 {
		return
	}
	change.Note(d.Options, "not reachable: %s: the old pod keeps running there, and is upgraded only after the node is back", view.List(cut, maxNames))
}

// nodesOf returns the names of the nodes of pods.
func nodesOf(all []*candidate) []string {
	var nodes []string
	for _, one := range all {
		nodes = append(nodes, one.pod.Spec.NodeName)
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// unreachableNodes returns the nodes that have stopped reporting. A node that reports that it is not ready is still
// reachable.
func unreachableNodes(ctx context.Context, c *options.Clients, nodes []string) ([]string, error) {
	var all []corev1.Node
	if len(nodes) > maxGets {
		// A read from the API server's cache is sufficient.
		list, err := c.Kubernetes.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return nil, err
		}
		all = list.Items
	} else {
		for _, name := range nodes {
			node, err := c.Kubernetes.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{ResourceVersion: "0"})
			if apierrors.IsNotFound(err) {
				continue // the pods of a node that does not exist are deleted
			}
			if err != nil {
				return nil, err
			}
			all = append(all, *node)
		}
	}
	var cut []string
	for i := range all {
		if slices.Contains(nodes, all[i].Name) && unreachable(&all[i]) {
			cut = append(cut, all[i].Name)
		}
	}
	slices.Sort(cut)
	return cut, nil
}

func unreachable(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown
	})
}
