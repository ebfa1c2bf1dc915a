// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/openyurt"
)

// crowdedRevisions are revisions of a server on which the namespaces but ns have very many or very large ones.
type crowdedRevisions struct{ herdRevisions }

func (f crowdedRevisions) List(ctx context.Context, namespace string, selector labels.Selector, each func(*appsv1.ControllerRevision)) error {
	if namespace != "ns" {
		time.Sleep(20 * time.Second)
	}
	return f.herdRevisions.List(ctx, namespace, selector, each)
}

// addExternalIn adds a set whose pods another controller keeps.
func (h *herd) addExternalIn(namespace, name string) {
	object := map[string]any{
		"apiVersion": "apps/v1", "kind": "DaemonSet",
		"metadata": map[string]any{
			"namespace": namespace, "name": name, "uid": "uid-" + name, "generation": int64(1), "annotations": map[string]any{edgeStrategy: "AdvancedRollingUpdate"},
		},
		"spec": map[string]any{
			"selector":       map[string]any{"matchLabels": map[string]any{"app": name}},
			"updateStrategy": map[string]any{"type": "OnDelete"},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": name}},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "c", "image": "img:v1"}}},
			},
		},
		"status": map[string]any{"observedGeneration": int64(1)},
	}
	h.mu.Lock()
	h.sets[name] = &unstructured.Unstructured{Object: object}
	h.sets[name].SetResourceVersion(h.next())
	digest := openyurt.DigestExternal(h.sets[name].DeepCopy().Object)
	h.mu.Unlock()
	h.index.PutSet(clustercache.Key{Dialect: "openyurt", Namespace: namespace, Name: name}, &digest)
}

// TestHistoriesOfACrowdedNamespace: tenants with very many revisions have sets whose pods another controller keeps. Each reads its history, and the sets of others do not wait
// for all of that.
func TestHistoriesOfACrowdedNamespace(t *testing.T) {
	for _, tenants := range []int{1, 10} {
		t.Run(fmt.Sprint(tenants), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHerd(t)
				h.c.Revisions = crowdedRevisions{herdRevisions{h}}
				h.c.dialects["openyurt"] = &dialect.Dialect{
					Source: dialect.Source{Dialect: "openyurt", Digest: openyurt.DigestExternal}, StatusPatch: openyurt.ExternalPatch, GVK: nativeGVK,
					Announce: openyurt.Announce, Texts: nativeTexts(), MayWrite: func() bool { return true },
				}
				h.turn(0, 3, true)
				h.run(func() {
					for i := range 100 {
						h.addExternalIn(fmt.Sprintf("tenant-%d", i%tenants), fmt.Sprintf("set-%d", i))
					}
					time.Sleep(time.Second)
					h.addSet("other")
					time.Sleep(time.Duration(tenants+1) * 21 * time.Second) // each tenant may occupy the workers once
					if n := h.createdBy("other"); n != 3 {
						t.Errorf("another set has %d pods, want 3", n)
					}
					time.Sleep(time.Hour)
					synctest.Wait() // a pass may run right now
					for i := range 100 {
						key := clustercache.Key{Dialect: "openyurt", Namespace: fmt.Sprintf("tenant-%d", i%tenants), Name: fmt.Sprintf("set-%d", i)}
						if s := h.c.states[key]; s == nil || s.observed.read == "" {
							t.Errorf("the history of %s was never read", key)
						}
					}
				})
			})
		})
	}
}
