// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// EditNode changes a node of the space.
func (s *Space) EditNode(name string, edit func(node *corev1.Node)) {
	s.t.Helper()
	nodes := s.Cluster.Client.CoreV1().Nodes()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := nodes.Get(s.ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		edit(node)
		_, err = nodes.Update(s.ctx, node, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		s.t.Fatalf("changing node %s: %v", name, err)
	}
}

// LabelNode sets a label; an empty value removes it. The key must begin with LabelPrefix.
func (s *Space) LabelNode(name, key, value string) {
	s.t.Helper()
	s.EditNode(name, func(node *corev1.Node) {
		node.Labels[key] = value
		if value == "" {
			delete(node.Labels, key)
		}
	})
}

// Taint adds a taint.
func (s *Space) Taint(name string, taint corev1.Taint) {
	s.t.Helper()
	s.EditNode(name, func(node *corev1.Node) { node.Spec.Taints = append(node.Spec.Taints, taint) })
}

// Untaint removes all taints with the key.
func (s *Space) Untaint(name, key string) {
	s.t.Helper()
	s.EditNode(name, func(node *corev1.Node) {
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == key })
	})
}

// Cordon makes a node unschedulable, or schedulable again.
func (s *Space) Cordon(name string, unschedulable bool) {
	s.t.Helper()
	s.EditNode(name, func(node *corev1.Node) { node.Spec.Unschedulable = unschedulable })
}

// RemoveNode deletes a node of the space permanently.
func (s *Space) RemoveNode(name string) {
	s.t.Helper()
	if err := s.Cluster.Plane.RemoveNode(s.ctx, name); err != nil {
		s.t.Fatalf("removing node %s: %v", name, err)
	}
	s.Nodes = slices.DeleteFunc(s.Nodes, func(node string) bool { return node == name })
}

// AddNode adds a node to the space.
func (s *Space) AddNode() {
	s.t.Helper()
	names, err := s.Cluster.takeNodes(s.ctx, s.Name, 1)
	if err != nil {
		s.t.Fatalf("adding a node: %v", err)
	}
	s.Nodes = append(s.Nodes, names...)
}

// AddFreshNode adds a node to the space that did not exist before.
func (s *Space) AddFreshNode() {
	s.t.Helper()
	names, err := s.Cluster.makeNodes(s.ctx, s.Name, 1)
	if err != nil {
		s.t.Fatalf("adding a new node: %v", err)
	}
	s.Nodes = append(s.Nodes, names...)
}

// CutNode cuts a node off the network.
func (s *Space) CutNode(name string) {
	s.t.Helper()
	if err := s.Cluster.Plane.CutNode(s.ctx, name); err != nil {
		s.t.Fatalf("cutting node %s: %v", name, err)
	}
}

// HealNode reconnects a node that was cut off.
func (s *Space) HealNode(name string) {
	s.t.Helper()
	if err := s.Cluster.Plane.HealNode(s.ctx, name); err != nil {
		s.t.Fatalf("healing node %s: %v", name, err)
	}
}
