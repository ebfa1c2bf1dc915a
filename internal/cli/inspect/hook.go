// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/pub"
	"everynode.dev/everynode/internal/cli/resolver"
)

// HookOf returns the preDelete hook of a set, or nil.
func HookOf(set *resolver.Set) (*pub.LifecycleHook, error) {
	raw, found, _ := unstructured.NestedMap(set.Object.Object, "spec", "lifecycle", "preDelete")
	if !set.Advanced() || !found {
		return nil, nil //nolint:nilnil // no hook is not a failure
	}
	hook := &pub.LifecycleHook{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, hook); err != nil {
		return nil, fmt.Errorf("%s: spec.lifecycle.preDelete cannot be read: %w", set, err)
	}
	return hook, nil
}

// Hold is the part of a hook that holds a pod.
type Hold struct {
	Labels     map[string]string
	Finalizers []string
}

// HoldOf returns what holds the pod; hook may be nil. A pod that was deleted by another client is held only by
// finalizers.
func HoldOf(hook *pub.LifecycleHook, pod *corev1.Pod) Hold {
	preparing, deleted := pod.Labels[kruise.LifecycleState] == kruise.LifecyclePreparingDelete, pod.DeletionTimestamp != nil
	hold := Hold{Labels: map[string]string{}}
	if hook == nil || !preparing && !deleted {
		return hold
	}
	for key, value := range hook.LabelsHandler {
		if have, ok := pod.Labels[key]; ok && have == value && preparing {
			hold.Labels[key] = value
		}
	}
	for _, name := range hook.FinalizersHandler {
		if slices.Contains(pod.Finalizers, name) {
			hold.Finalizers = append(hold.Finalizers, name)
		}
	}
	return hold
}

// Empty reports whether nothing holds the pod.
func (h Hold) Empty() bool { return len(h.Labels)+len(h.Finalizers) == 0 }

// String lists everything that holds the pod.
func (h Hold) String() string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(h.Labels)) {
		all = append(all, "label "+key+"="+h.Labels[key])
	}
	for _, name := range h.Finalizers {
		all = append(all, "finalizer "+name)
	}
	return strings.Join(all, ", ")
}
