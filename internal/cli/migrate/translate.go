// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/api/annotation"
	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/openyurt"
)

// The kinds.
func native() schema.GroupVersionResource {
	return appsv1.SchemeGroupVersion.WithResource("daemonsets")
}

func advanced() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: kruise.Group, Version: kruise.VersionStored, Resource: kruise.Resource}
}

// other returns the other kind.
func other(kind schema.GroupVersionResource) schema.GroupVersionResource {
	if kind == native() {
		return advanced()
	}
	return native()
}

const (
	typeRolling  = "RollingUpdate"
	typeOnDelete = "OnDelete"
)

// translation is a set converted to the other kind.
type translation struct {
	// object is the new object in its final form.
	object *unstructured.Unstructured
	// lost are the fields that the new kind does not have, with their values.
	lost []string
}

// translate converts a set to the other kind.
func translate(set *unstructured.Unstructured, to schema.GroupVersionResource) (*translation, error) {
	t := &translation{object: &unstructured.Unstructured{Object: map[string]any{}}}
	t.object.SetGroupVersionKind(to.GroupVersion().WithKind(kruise.Kind))
	t.object.SetName(set.GetName())
	t.object.SetNamespace(set.GetNamespace())
	t.object.SetLabels(set.GetLabels())
	t.annotations(set.GetAnnotations(), to)
	spec, _, err := unstructured.NestedMap(set.Object, "spec")
	if err != nil {
		return nil, fmt.Errorf("reading spec: %w", err)
	}
	for _, key := range slices.Sorted(maps.Keys(spec)) {
		if key != "updateStrategy" && !slices.Contains(common(), key) {
			t.lose("spec."+key, spec[key], defaults())
			delete(spec, key)
		}
	}
	strategy, _ := spec["updateStrategy"].(map[string]any)
	spec["updateStrategy"] = t.strategy(strategy, to)
	t.object.Object["spec"] = spec
	return t, nil
}

// common returns the fields of spec that both kinds have.
func common() []string {
	return []string{"selector", "template", "minReadySeconds", "revisionHistoryLimit"}
}

// defaults returns default values whose loss is not a change, by field, as JSON.
func defaults() map[string][]string {
	return map[string][]string{
		"spec.burstReplicas": {"250"},
		"spec.lifecycle":     {"{}"},
		"spec.scaleStrategy": {"{}", `{"partitionedScaling":false}`},
		"spec.updateStrategy.rollingUpdate.rollingUpdateType": {`"Standard"`, `""`},
		"spec.updateStrategy.rollingUpdate.selector":          {"{}"},
		"spec.updateStrategy.rollingUpdate.partition":         {"0", `"0%"`, `"0"`},
		"spec.updateStrategy.rollingUpdate.paused":            {"false"},
	}
}

// lose records a lost field, unless it has a default value.
func (t *translation) lose(field string, value any, without map[string][]string) {
	if value == nil {
		return
	}
	text, err := json.Marshal(value)
	if err != nil || slices.Contains(without[field], string(text)) {
		return
	}
	t.lost = append(t.lost, field+": "+string(text))
}

// strategy returns the update strategy in the new kind.
func (t *translation) strategy(old map[string]any, to schema.GroupVersionResource) map[string]any {
	kind, _ := old["type"].(string)
	if kind == "" {
		kind = typeRolling
	}
	now := map[string]any{"type": kind}
	rolling, _ := old["rollingUpdate"].(map[string]any)
	if kind != typeRolling || len(rolling) == 0 {
		return now
	}
	limits := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(rolling)) {
		switch key {
		case "maxUnavailable", "maxSurge":
			limits[key] = runtime.DeepCopyJSONValue(rolling[key])
		default:
			t.lose("spec.updateStrategy.rollingUpdate."+key, rolling[key], defaults())
		}
	}
	// If maxUnavailable is absent, apps/v1 sets it to 1, and then rejects maxSurge.
	if _, surges := limits["maxSurge"]; to == native() && surges && limits["maxUnavailable"] == nil {
		limits["maxUnavailable"] = int64(0)
	}
	now["rollingUpdate"] = limits
	return now
}

// annotations keeps the annotations of users that the new kind knows.
func (t *translation) annotations(old map[string]string, to schema.GroupVersionResource) {
	kept := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(old)) {
		switch {
		case slices.Contains(ofOne(), key):
		case slices.Contains(without(to), key):
			t.lose("metadata.annotations."+key, old[key], map[string][]string{"metadata.annotations." + kruise.ProgressiveCreate: {`"false"`, `""`}})
		default:
			kept[key] = old[key]
		}
	}
	if len(kept) > 0 {
		t.object.SetAnnotations(kept)
	}
}

// ofOne returns the annotations that are valid for one object only.
func ofOne() []string {
	return []string{appsv1.DeprecatedTemplateGeneration, corev1.LastAppliedConfigAnnotation, everynode.KeptSurging, everynode.KeptScaling}
}

// without returns the annotations that the new kind does not know.
func without(to schema.GroupVersionResource) (keys []string) {
	unknown := annotation.PlainOnly
	if to == native() {
		unknown = annotation.AdvancedOnly
	}
	for _, rule := range slices.Concat(kruise.Annotations(), openyurt.Annotations(), everynode.Annotations()) {
		if rule.For == unknown {
			keys = append(keys, rule.Key)
		}
	}
	return keys
}

// held returns the new object as it is created: it updates nothing before it gets its own strategy. An object with
// OnDelete needs no change.
func (t *translation) held() *unstructured.Unstructured {
	object := t.object.DeepCopy()
	spec := object.Object["spec"].(map[string]any)
	strategy := spec["updateStrategy"].(map[string]any)
	switch {
	case strategy["type"] == typeOnDelete:
	case object.GroupVersionKind().Group == kruise.Group:
		rolling, ok := strategy["rollingUpdate"].(map[string]any)
		if !ok {
			rolling = map[string]any{}
			strategy["rollingUpdate"] = rolling
		}
		rolling["paused"] = true
	default:
		spec["updateStrategy"] = map[string]any{"type": typeOnDelete}
	}
	return object
}

// refusals returns why a set can never be migrated in its current form.
func refusals(set *unstructured.Unstructured, title string) error {
	if owners := set.GetOwnerReferences(); len(owners) > 0 {
		return fmt.Errorf("%s is owned by %s/%s, which would create it again: change it there", title, strings.ToLower(owners[0].Kind), owners[0].Name)
	}
	if set.GetDeletionTimestamp() != nil {
		return fmt.Errorf("%s is being deleted", title)
	}
	if finalizers := set.GetFinalizers(); len(finalizers) > 0 {
		return fmt.Errorf("%s has the finalizers %s, which would delay its deletion: remove them first", title, strings.Join(finalizers, ", "))
	}
	return nil
}

// inFlight returns an error for a set whose pods are not all up to date: the other kind may not have the fields that
// hold them back. With OnDelete, neither kind updates pods.
func inFlight(set *unstructured.Unstructured, title string) error {
	kind, _, _ := unstructured.NestedString(set.Object, "spec", "updateStrategy", "type")
	s := statusOf(set)
	switch {
	case s.observed < set.GetGeneration():
		return fmt.Errorf("%s has changed, and its controller has not observed the change yet: wait for `kubectl everynode status %s`", title, title)
	case kind != typeOnDelete && s.updated < s.desired:
		return fmt.Errorf("%s is being rolled out, %d of %d nodes are up to date: wait until it has finished (`kubectl everynode status %s`), or undo it first",
			title, s.updated, s.desired, title)
	}
	return nil
}

// status is the relevant part of a status.
type status struct{ observed, updated, desired int64 }

func statusOf(set *unstructured.Unstructured) status {
	number := func(field string) int64 {
		n, _, _ := unstructured.NestedInt64(set.Object, "status", field)
		return n
	}
	return status{number("observedGeneration"), number("updatedNumberScheduled"), number("desiredNumberScheduled")}
}
