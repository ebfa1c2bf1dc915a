// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/clustercache"
)

// NodeStore takes the nodes too, so that a process reads them once: each heartbeat of a node costs each reader. Its methods are
// called after the index was, one at a time and in the order of the watch, and must not block.
type NodeStore interface {
	// Keep is what the store is to be handed of a node.
	Keep(n *corev1.Node) *corev1.Node
	Put(kept *corev1.Node)
	Remove(name string)
	Replace(kept []*corev1.Node)
}

type nodeSink struct {
	x    *clustercache.Index
	also NodeStore // nil for none
}

// heldNode is a node while the list of all is streamed.
type heldNode struct {
	record clustercache.Node
	kept   *corev1.Node // nil without another store
}

// record converts a node into a *heldNode.
func (s nodeSink) record(obj any) (any, error) {
	n, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	held := &heldNode{record: clustercache.NodeFrom(n)}
	if s.also != nil {
		held.kept = s.also.Keep(n)
	}
	return held, nil
}

func (s nodeSink) put(obj any) {
	n, ok := obj.(*corev1.Node)
	if !ok {
		return
	}
	s.x.PutNode(clustercache.NodeFrom(n))
	if s.also != nil {
		s.also.Put(s.also.Keep(n))
	}
}

func (s nodeSink) remove(obj any) {
	n, ok := obj.(*corev1.Node)
	if !ok {
		return
	}
	s.x.DeleteNode(n.Name)
	if s.also != nil {
		s.also.Remove(n.Name)
	}
}

func (s nodeSink) replace(list []any, rv string) *clustercache.Reverted {
	nodes, kept := make([]clustercache.Node, 0, len(list)), make([]*corev1.Node, 0, len(list))
	for _, obj := range list {
		rec, err := s.record(obj) // a list that was not streamed holds objects
		if held, ok := rec.(*heldNode); ok && err == nil {
			nodes, kept = append(nodes, held.record), append(kept, held.kept)
		}
	}
	back := s.x.ReplaceNodes(nodes, rv)
	if s.also != nil && back == nil {
		s.also.Replace(kept)
	}
	return back
}

func (s nodeSink) seen(string) {}

// podSink takes pods. The list of all pods of a large cluster is the largest thing that the manager ever
// holds, so only a record of each pod is held, and records share equal strings. Only the reflector calls it,
// one call at a time.
type podSink struct {
	x *clustercache.Index
	// names has one copy of each string that many pods of the list share, such as the labels of one revision of a set.
	names map[string]string
	alike map[revisionOf]map[string]string
}

// revisionOf names a revision of a set.
type revisionOf struct {
	owner types.UID
	hash  string
}

// notOurs is a pod that no daemon set can own.
type notOurs struct{}

func newPodSink(x *clustercache.Index) *podSink {
	s := &podSink{x: x}
	s.forget()
	return s
}

func (s *podSink) forget() {
	s.names, s.alike = map[string]string{}, map[revisionOf]map[string]string{}
}

// record makes a *clustercache.Pod of a pod.
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

func (s *podSink) replace(list []any, rv string) *clustercache.Reverted {
	pods := make([]*clustercache.Pod, 0, len(list))
	for _, obj := range list {
		rec, err := s.record(obj) // a list that was not streamed holds objects
		if p, ours := rec.(*clustercache.Pod); ours && err == nil {
			pods = append(pods, p)
		}
	}
	s.forget()
	return s.x.ReplacePods(pods, rv)
}

func (s *podSink) seen(rv string) { s.x.PodsSeen(rv) }
