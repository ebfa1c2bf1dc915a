// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"maps"
	"slices"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"everynode.dev/everynode/api/kruise/pub"
)

func (v *validator) lifecycle(path *field.Path) {
	lifecycle := v.typed.Lifecycle
	if lifecycle == nil {
		return
	}
	if lifecycle.InPlaceUpdate != nil {
		v.report(field.Forbidden(path.Child("inPlaceUpdate"), "inPlaceUpdate hook has not supported yet"))
	}
	if lifecycle.PreNormal != nil {
		v.report(field.Forbidden(path.Child("preNormal"), "preNormal hook has not supported yet: a pod of a daemon set is in use as soon as it is ready; remove the hook"))
	}
	if lifecycle.PreDelete != nil {
		v.hook(lifecycle.PreDelete, path.Child("preDelete"))
	}
}

// hook validates a supported hook.
func (v *validator) hook(hook *pub.LifecycleHook, path *field.Path) {
	v.report(metavalidation.ValidateLabels(hook.LabelsHandler, path.Child("labelsHandler"))...)
	v.ownLabels(hook, path.Child("labelsHandler"))
	finalizers := path.Child("finalizersHandler")
	for i, name := range hook.FinalizersHandler {
		v.report(finalizer(name, finalizers.Index(i))...)
		if slices.Contains(hook.FinalizersHandler[:i], name) {
			v.report(field.Duplicate(finalizers.Index(i), name))
		}
	}
	if hook.MarkPodNotReady && len(hook.LabelsHandler)+len(hook.FinalizersHandler) == 0 {
		v.report(field.Invalid(path.Child("markPodNotReady"), true, "has no effect without labelsHandler or finalizersHandler, "+
			"which say what a pod waits for: add one of them"))
	}
}

// ownLabels warns about labels of the selector of the DaemonSet: if such a label is removed to release a pod, the pod
// no longer belongs to the set and stays.
func (v *validator) ownLabels(hook *pub.LifecycleHook, path *field.Path) {
	selector := v.typed.Selector
	if selector == nil {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(hook.LabelsHandler)) {
		_, matched := selector.MatchLabels[key]
		if matched || slices.ContainsFunc(selector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool { return r.Key == key }) {
			v.warn(path.Key(key), "spec.selector selects by this label, so a pod without it no longer belongs to the daemon set and is not deleted: "+
				"use another label")
		}
	}
}

// finalizer validates the name of a finalizer as the API server does for a pod.
func finalizer(name string, path *field.Path) field.ErrorList {
	errs := apivalidation.ValidateFinalizerName(name, path)
	standard := []string{metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents, "kubernetes"}
	if len(errs) == 0 && !strings.Contains(name, "/") && !slices.Contains(standard, name) {
		errs = append(errs, field.Invalid(path, name, "name is neither a standard finalizer name nor is it fully qualified"))
	}
	return errs
}
