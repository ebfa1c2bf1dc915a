// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/policy"
)

// places edits the image, and where the template lets the pods run; nil removes the field.
func (w *world) places(image, field string, value any) {
	w.t.Helper()
	if err := unstructured.SetNestedField(w.set.Object, value, "spec", "template", "spec", field); err != nil {
		w.t.Fatal(err)
	}
	if value == nil {
		unstructured.RemoveNestedField(w.set.Object, "spec", "template", "spec", field)
	}
	w.edit(image)
}

// TestTemplateThatSelectsNoNode: under a policy, a mistake in the node selector removes no pod, also not by a manager that has just started. Before the change, all pods left at once, and the canary was complete.
func TestTemplateThatSelectsNoNode(t *testing.T) {
	w, r := governedWorld(t)
	w.places("img:v2", "nodeSelector", map[string]any{"pool": "typo"})
	w.settle()
	w.c.states = map[clustercache.Key]*state{}
	w.settle()
	if got, nodes := r.last(), w.images("img:v1"); got.Phase != v1alpha1.PhaseStalled || got.Blocking[0].Reason != policy.NoNodeEligible || len(nodes) != 4 {
		t.Fatalf("%+v, %v", got, nodes)
	}
	before := w.owned()
	w.places("img:v1", "nodeSelector", nil)
	w.settle()
	if got := r.last(); got.Phase != v1alpha1.PhaseComplete || len(w.owned()) != 4 {
		t.Fatalf("%+v, %v", got, w.owned())
	}
	for name, uid := range before {
		if w.owned()[name] != uid {
			t.Errorf("pod %s was replaced", name)
		}
	}
}

// TestTemplateThatSelectsFewerNodes: the nodes that it excludes lose their pod when all waves have passed.
func TestTemplateThatSelectsFewerNodes(t *testing.T) {
	w, r := governedWorld(t)
	for _, name := range []string{"n3", "n4"} {
		w.index.PutNode(clustercache.Node{Name: name, RV: w.next(), Ready: true, Labels: map[string]string{"pool": "a"}})
	}
	w.settle()
	w.places("img:v2", "nodeSelector", map[string]any{"pool": "a"})
	w.settle()
	w.passFor(20 * time.Second)
	if got := strings.Join(w.images("img:v1"), " "); got != "n1 n2 n4" || !slices.Equal(w.images("img:v2"), []string{"n3"}) {
		t.Fatalf("%s, %v, %+v", got, w.images("img:v2"), r.last())
	}
	r.approve("canary", r.last().TargetRevision)
	w.settle()
	w.settle()
	if got := r.last(); got.Phase != v1alpha1.PhaseComplete || len(w.images("img:v1")) != 0 || !slices.Equal(w.images("img:v2"), []string{"n3", "n4"}) {
		t.Fatalf("%v, %v, %+v", w.images("img:v1"), w.images("img:v2"), got)
	}
}

// TestTemplateThatSelectsMoreNodes: a node with a taint that only the new template tolerates gets its first pod in its wave. Before the change, it got one of the committed revision, which could not run there.
func TestTemplateThatSelectsMoreNodes(t *testing.T) {
	w, r := governedWorld(t)
	w.index.PutNode(clustercache.Node{Name: "n5", RV: w.next(), Ready: true, Taints: []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}})
	w.settle()
	w.places("img:v2", "tolerations", []any{map[string]any{"key": "gpu", "operator": "Exists"}})
	w.settle()
	w.passFor(20 * time.Second)
	if got := strings.Join(w.images("img:v1"), " "); got != "n2 n3 n4" || !slices.Equal(w.images("img:v2"), []string{"n1"}) {
		t.Fatalf("%s, %v, %+v", got, w.images("img:v2"), r.last())
	}
	r.approve("canary", r.last().TargetRevision)
	w.settle()
	w.settle()
	if got := r.last(); got.Phase != v1alpha1.PhaseComplete || len(w.images("img:v2")) != 5 {
		t.Fatalf("%v, %+v", w.images("img:v2"), got)
	}
}
