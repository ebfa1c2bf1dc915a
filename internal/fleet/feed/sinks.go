// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/fleet"
)

type nodeSink struct{ x *fleet.Index }

// recordNode makes a *fleet.Node of a node.
func recordNode(obj any) (any, error) {
	if n, ok := obj.(*corev1.Node); ok {
		rec := fleet.NodeFrom(n)
		return &rec, nil
	}
	return obj, nil
}

func (s nodeSink) put(obj any) {
	if n, ok := obj.(*corev1.Node); ok {
		s.x.PutNode(fleet.NodeFrom(n))
	}
}

func (s nodeSink) remove(obj any) {
	if n, ok := obj.(*corev1.Node); ok {
		s.x.DeleteNode(n.Name)
	}
}

func (s nodeSink) replace(list []any, rv string) {
	nodes := make([]fleet.Node, 0, len(list))
	for _, obj := range list {
		switch n := obj.(type) {
		case *fleet.Node:
			nodes = append(nodes, *n)
		case *corev1.Node:
			nodes = append(nodes, fleet.NodeFrom(n))
		}
	}
	s.x.ReplaceNodes(nodes, rv)
}

func (s nodeSink) seen(string) {}

// podSink takes pods. The list of all pods of a large cluster is the largest thing that the manager ever holds, so what is held of
// a pod is its record, whose strings are those of other pods where they are the same. Only the reflector calls it, one call at a time.
type podSink struct {
	x *fleet.Index
	// names has one copy of what many pods of the list have in common, alike the labels of one revision of a set.
	names map[string]string
	alike map[revisionOf]map[string]string
}

// revisionOf names a revision of a set.
type revisionOf struct {
	owner types.UID
	hash  string
}

// notOurs stands for a pod that no daemon set can own.
type notOurs struct{}

func newPodSink(x *fleet.Index) *podSink {
	s := &podSink{x: x}
	s.forget()
	return s
}

func (s *podSink) forget() {
	s.names, s.alike = map[string]string{}, map[revisionOf]map[string]string{}
}

// record makes a *fleet.Pod of a pod.
func (s *podSink) record(obj any) (any, error) {
	p, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	rec, ours := s.x.PodFrom(p)
	if !ours {
		return notOurs{}, nil
	}
	rec.Namespace, rec.Node, rec.Owner = s.same(rec.Namespace), s.same(rec.Node), types.UID(s.same(string(rec.Owner)))
	id := revisionOf{rec.Owner, s.same(rec.Hash)}
	if labels := s.alike[id]; maps.Equal(labels, rec.Labels) {
		rec.Labels = labels
	} else {
		s.alike[id] = rec.Labels
	}
	rec.Hash = id.hash
	return &rec, nil
}

// same is the one copy of a string.
func (s *podSink) same(name string) string {
	if known, ok := s.names[name]; ok {
		return known
	}
	s.names[name] = name
	return name
}

func (s *podSink) put(obj any) {
	p, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	if rec, ours := s.x.PodFrom(p); ours {
		s.x.PutPod(rec)
	} else {
		s.x.DeletePod(p.UID, p.ResourceVersion) // it may have been an orphan before
	}
}

func (s *podSink) remove(obj any) {
	if p, ok := obj.(*corev1.Pod); ok {
		s.x.DeletePod(p.UID, p.ResourceVersion)
	}
}

func (s *podSink) replace(list []any, rv string) {
	pods := make([]*fleet.Pod, 0, len(list))
	for _, obj := range list {
		rec, err := s.record(obj) // a list that was not streamed holds objects
		if p, ours := rec.(*fleet.Pod); ours && err == nil {
			pods = append(pods, p)
		}
	}
	s.forget()
	s.x.ReplacePods(pods, rv)
}

func (s *podSink) seen(rv string) { s.x.PodsSeen(rv) }
