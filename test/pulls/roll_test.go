// SPDX-License-Identifier: Apache-2.0

package pulls

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// set is a daemon set of that kind, whose pods have the image.
func set(apiVersion, name, image string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": "DaemonSet",
		"metadata": map[string]any{"namespace": "default", "name": name, "annotations": map[string]any{"apps.kruise.io/image-predownload-parallelism": "30"}},
		"spec": map[string]any{
			"selector":       map[string]any{"matchLabels": map[string]any{"app": name}},
			"updateStrategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxUnavailable": int64(5)}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": name}},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "main", "image": image}}},
			},
		},
	}}
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// patch changes a set.
func (w *world) patch(obj *unstructured.Unstructured, patch string) {
	w.t.Helper()
	if err := w.Patch(w.t.Context(), obj, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		w.t.Fatal(err)
	}
}
