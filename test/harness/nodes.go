// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
)

// LabelPrefix is the prefix of labels that tests set on nodes; they are removed when the node is returned.
const LabelPrefix = "test.everynode.dev/"

// SampleLabel is the label by which the samples in docs/ select nodes; it is removed like labels with LabelPrefix.
const SampleLabel = "nodeType"

// PoolLabel is the label of a node with the name of its space.
const PoolLabel = LabelPrefix + "space"

// adoptNodes reads the nodes of the plane.
func (c *Cluster) adoptNodes(ctx context.Context) error {
	nodes, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing the plane's nodes: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.free = nil
	for _, node := range nodes.Items {
		if node.Labels[PoolLabel] == "" {
			c.free = append(c.free, node.Name)
		}
	}
	return nil
}

// takeNodes assigns nodes to a space, creates more if there are too few, and waits until all are Ready.
func (c *Cluster) takeNodes(ctx context.Context, space string, count int) ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if missing := count - len(c.free); missing > 0 {
		names, err := c.Plane.AddNodes(ctx, missing)
		if err != nil {
			return nil, fmt.Errorf("adding %d nodes: %w", missing, err)
		}
		c.free = append(c.free, names...)
	}
	taken := slices.Clone(c.free[:count])
	c.free = slices.Clone(c.free[count:])
	return taken, c.hand(ctx, space, taken)
}

// makeNodes creates nodes for a space. Spaces take turns: a node gets the next number that is free.
func (c *Cluster) makeNodes(ctx context.Context, space string, count int) ([]string, error) {
	c.mu.Lock()
	names, err := c.Plane.AddNodes(ctx, count)
	c.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("adding %d nodes: %w", count, err)
	}
	return names, c.hand(ctx, space, names)
}

// hand assigns nodes to a space, and waits until all are Ready.
func (c *Cluster) hand(ctx context.Context, space string, names []string) error {
	for _, name := range names {
		if err := c.patchNode(ctx, name, map[string]any{"metadata": map[string]any{"labels": map[string]any{PoolLabel: space}}}); err != nil {
			return err
		}
	}
	return c.waitReady(ctx, space, names)
}

// waitReady waits until these nodes of a space are Ready and have no taints of a node that is not.
func (c *Cluster) waitReady(ctx context.Context, space string, names []string) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	selector := metav1.ListOptions{LabelSelector: PoolLabel + "=" + space}
	list, err := c.Client.CoreV1().Nodes().List(ctx, selector)
	if err != nil {
		return fmt.Errorf("listing the nodes of %s: %w", space, err)
	}
	missing := sets.New(names...)
	for i := range list.Items {
		note(missing, names, &list.Items[i])
	}
	selector.ResourceVersion = list.ResourceVersion
	watcher, err := c.Client.CoreV1().Nodes().Watch(ctx, selector)
	if err != nil {
		return fmt.Errorf("watching the nodes of %s: %w", space, err)
	}
	defer watcher.Stop()
	for missing.Len() > 0 {
		event, open := <-watcher.ResultChan()
		if !open || event.Type == watch.Error {
			return fmt.Errorf("nodes %v of %s did not become Ready in time: %w", sets.List(missing), space, context.Cause(ctx))
		}
		if node, ok := event.Object.(*corev1.Node); ok {
			note(missing, names, node)
		}
	}
	return nil
}

// note removes a node that is Ready from the missing ones, and adds it again when it no longer is.
func note(missing sets.Set[string], names []string, node *corev1.Node) {
	switch {
	case !slices.Contains(names, node.Name):
	case nodeReady(node):
		missing.Delete(node.Name)
	default:
		missing.Insert(node.Name)
	}
}

func nodeReady(node *corev1.Node) bool {
	if len(node.Spec.Taints) > 0 {
		return false
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// giveBack returns the nodes of a space, and removes labels and taints of the test. Deleted nodes are forgotten.
func (c *Cluster) giveBack(ctx context.Context, names []string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range names {
		node, err := c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading node %s: %w", name, err)
		}
		if !nodeReady(node) {
			continue // a test left it in a state that the next test should not get
		}
		labels := map[string]any{}
		for key := range node.Labels {
			if strings.HasPrefix(key, LabelPrefix) || key == SampleLabel {
				labels[key] = nil
			}
		}
		if err := c.patchNode(ctx, name, map[string]any{"metadata": map[string]any{"labels": labels}}); err != nil {
			return err
		}
		c.free = append(c.free, name)
	}
	return nil
}

func (c *Cluster) patchNode(ctx context.Context, name string, patch map[string]any) error {
	raw, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("patching node %s: %w", name, err)
	}
	if _, err := c.Client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, raw, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("patching node %s: %w", name, err)
	}
	return nil
}
