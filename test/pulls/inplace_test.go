// SPDX-License-Identifier: Apache-2.0

package pulls

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/features"
)

// The nodes of the roll in place, and the one of them on which no agent runs.
const (
	inPlaceNodes = 6
	bareNode     = "node-0006"
)

// agents are pods that look like those of everynode-agent, on all nodes but one. What pulls is part of the simulated nodes.
func agents() *unstructured.Unstructured {
	ds := set("apps/v1", everynode.AgentName, "agent:1")
	ds.SetNamespace(everynode.AgentNamespace)
	labels := map[string]any{everynode.AgentLabel: everynode.AgentName}
	_ = unstructured.SetNestedMap(ds.Object, labels, "spec", "selector", "matchLabels")
	_ = unstructured.SetNestedMap(ds.Object, labels, "spec", "template", "metadata", "labels")
	_ = unstructured.SetNestedMap(ds.Object, map[string]any{"nodeAffinity": map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": map[string]any{
		"nodeSelectorTerms": []any{map[string]any{"matchFields": []any{map[string]any{"key": "metadata.name", "operator": "NotIn", "values": []any{bareNode}}}}},
	}}}, "spec", "template", "spec", "affinity")
	return ds
}

// TestChangesInPlaceWait: without an annotation and without the feature gate, no pod is changed in place before its node has the image, where an agent runs. A
// set that says so does not wait. A node that cannot pull keeps its old pod until its time has ended, and its update then continues.
func TestChangesInPlaceWait(t *testing.T) {
	w := newWorld(t, inPlaceNodes, fmt.Sprintf("--feature-gates=%s=false", features.PreDownloadImageForDaemonSetUpdate))
	if err := w.Create(t.Context(), agents()); err != nil {
		t.Fatal(err)
	}
	await(t, w, &corev1.PodList{}, "the agents", func(l *corev1.PodList) bool {
		ready := slices.DeleteFunc(l.Items, func(p corev1.Pod) bool { return p.Namespace != everynode.AgentNamespace || !isReady(&p) })
		return len(ready) == inPlaceNodes-1
	})
	const kruise, missing = "apps.kruise.io/v1beta1", "2-missing-on-" + badNode
	inPlace := func(name string) *unstructured.Unstructured { return waiting(kruise, name, "InPlaceIfPossible", false) }
	off := inPlace("off")
	off.SetAnnotations(map[string]string{everynode.WaitForImage: "false"})
	rolls := []struct {
		ds  *unstructured.Unstructured
		tag string
	}{{inPlace("waits"), "2"}, {off, "2"}, {waiting(kruise, "recreated", "Standard", false), "2"}, {inPlace("missing"), missing}}
	witnesses := map[string]*witness{}
	for _, r := range rolls {
		name := r.ds.GetName()
		first := w.witnessOf(name, name, "1")
		if err := w.Create(t.Context(), r.ds); err != nil {
			t.Fatal(err)
		}
		first.wait(t, "the first pods of "+name, func() bool { return first.updated() == inPlaceNodes })
	}
	for _, r := range rolls {
		name := r.ds.GetName()
		witnesses[name] = w.witnessOf(name, name, r.tag)
		w.patch(r.ds, `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"`+name+":"+r.tag+`"}]}}}}`)
	}
	for name, soon := range map[string]int{"waits": 1, "off": inPlaceNodes, "recreated": inPlaceNodes} {
		s := witnesses[name]
		s.wait(t, "the update of "+name, func() bool { return s.updated() == inPlaceNodes })
		if got := s.tooSoon(); len(got) != soon || !slices.Contains(got, bareNode) {
			t.Errorf("%s touched the pods of %q before their images were there", name, got)
		}
	}
	w.checkMissing(witnesses["missing"])
	await(t, w, &v1beta1.ImagePullJobList{}, "the end of the other jobs", func(l *v1beta1.ImagePullJobList) bool {
		return !slices.ContainsFunc(l.Items, func(j v1beta1.ImagePullJob) bool { return !strings.HasPrefix(j.Name, "missing-") })
	})
}

// checkMissing: while the other nodes are updated, the one that cannot pull waits with its old pod ready; after its time it is updated all the same.
func (w *world) checkMissing(s *witness) {
	w.t.Helper()
	s.wait(w.t, "the update of the nodes that can pull", func() bool { return s.updated() == inPlaceNodes-1 })
	s.mu.Lock()
	early := s.touched[badNode] != ""
	s.mu.Unlock()
	if early {
		w.t.Errorf("%s was not waited for", badNode)
	}
	pods := &corev1.PodList{}
	if err := w.List(w.t.Context(), pods, client.InNamespace("default"), client.MatchingLabels{"app": "missing"}); err != nil {
		w.t.Fatal(err)
	}
	for i := range pods.Items {
		if p := &pods.Items[i]; p.Spec.NodeName == badNode && !early && !isReady(p) {
			w.t.Errorf("the old pod of %s is not ready: %+v", badNode, p.Status)
		}
	}
	s.wait(w.t, "the end of its time", func() bool { return s.touched[badNode] != "" })
}
