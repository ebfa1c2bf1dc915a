// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/pub"
	"everynode.dev/everynode/api/kruise/v1beta1"
)

// Advanced is an Advanced DaemonSet in a log: the part that apps/v1 has too, so that the same invariants apply, and the
// limits of its updates.
type Advanced struct {
	*appsv1.DaemonSet
	// UpdateRevision is the newest revision, if its status is for Generation.
	UpdateRevision string

	template    string
	rolling     v1beta1.RollingUpdateDaemonSet
	nodes       labels.Selector
	hook        *pub.LifecycleHook
	progressive bool
}

// ReadAdvanced decodes an object of apps.kruise.io/v1beta1.
func ReadAdvanced(object runtime.Object) (*v1beta1.DaemonSet, error) {
	undecoded, ok := object.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("reading an Advanced DaemonSet: it is a %T", object)
	}
	set := &v1beta1.DaemonSet{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(undecoded.Object, set); err != nil {
		return nil, fmt.Errorf("reading Advanced DaemonSet %s: %w", undecoded.GetName(), err)
	}
	return set, nil
}

// NewAdvanced converts a set for a log.
func NewAdvanced(set *v1beta1.DaemonSet) (*Advanced, error) {
	common, err := AsNative(set)
	if err != nil {
		return nil, err
	}
	a := &Advanced{DaemonSet: common, UpdateRevision: set.Status.UpdateRevision, template: string(set.Spec.Template.Raw), nodes: labels.Everything()}
	a.progressive = set.Annotations[kruise.ProgressiveCreate] == "true"
	if scale := set.Spec.ScaleStrategy; scale != nil && scale.PartitionedScaling {
		a.progressive = true
	}
	if set.Spec.Lifecycle != nil {
		a.hook = set.Spec.Lifecycle.PreDelete
	}
	if rolling := set.Spec.UpdateStrategy.RollingUpdate; rolling != nil {
		a.rolling = *rolling
		if rolling.Selector != nil {
			if a.nodes, err = metav1.LabelSelectorAsSelector(rolling.Selector); err != nil {
				a.nodes = labels.Nothing() // then no node may be updated
			}
		}
	}
	return a, nil
}

// AsNative returns the part of an Advanced DaemonSet that a DaemonSet of apps/v1 has too, with the defaults of
// OpenKruise: the budgets are set only if neither is given.
func AsNative(set *v1beta1.DaemonSet) (*appsv1.DaemonSet, error) {
	status := set.Status
	native := &appsv1.DaemonSet{ObjectMeta: set.ObjectMeta, Status: appsv1.DaemonSetStatus{
		CurrentNumberScheduled: status.CurrentNumberScheduled, NumberMisscheduled: status.NumberMisscheduled,
		DesiredNumberScheduled: status.DesiredNumberScheduled, NumberReady: status.NumberReady,
		ObservedGeneration: status.ObservedGeneration, UpdatedNumberScheduled: status.UpdatedNumberScheduled,
		NumberAvailable: status.NumberAvailable, NumberUnavailable: status.NumberUnavailable,
		CollisionCount: status.CollisionCount, Conditions: status.Conditions,
	}}
	native.Spec = appsv1.DaemonSetSpec{
		Selector: set.Spec.Selector, MinReadySeconds: set.Spec.MinReadySeconds, RevisionHistoryLimit: set.Spec.RevisionHistoryLimit,
		UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.DaemonSetUpdateStrategyType(set.Spec.UpdateStrategy.Type)},
	}
	if len(set.Spec.Template.Raw) > 0 {
		if err := json.Unmarshal(set.Spec.Template.Raw, &native.Spec.Template); err != nil {
			return nil, fmt.Errorf("reading the template of Advanced DaemonSet %s: %w", set.Name, err)
		}
	}
	unavailable, surge := new(intstr.FromInt32(1)), new(intstr.FromInt32(0))
	if rolling := set.Spec.UpdateStrategy.RollingUpdate; rolling != nil && (rolling.MaxUnavailable != nil || rolling.MaxSurge != nil) {
		unavailable, surge = orZero(rolling.MaxUnavailable), orZero(rolling.MaxSurge)
	}
	native.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxUnavailable: unavailable, MaxSurge: surge}
	return native, nil
}

func orZero(value *intstr.IntOrString) *intstr.IntOrString {
	if value == nil {
		return new(intstr.FromInt32(0))
	}
	return value
}

// preparing reports whether the pod waits for its preDelete hook: then it counts as not available.
func preparing(pod *corev1.Pod) bool {
	return pod.Labels[kruise.LifecycleState] == kruise.LifecyclePreparingDelete
}

func hashOf(pod *corev1.Pod) string { return pod.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] }
