// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"everynode.dev/everynode/internal/placement"
)

// selector validates the selector, alone and together with the labels of the template.
func (v *validator) selector(spec *field.Path) {
	path := spec.Child("selector")
	selector := v.typed.Selector
	if selector == nil {
		v.report(field.Required(path, "a daemon set needs a selector, which identifies its pods"))
		return
	}
	v.report(metavalidation.ValidateLabelSelector(selector, metavalidation.LabelSelectorValidationOptions{}, path)...)
	if len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		v.report(field.Invalid(path, field.OmitValueType{}, "empty selector is invalid for daemonset"))
		return
	}
	matcher, err := metav1.LabelSelectorAsSelector(selector)
	if err == nil && !matcher.Matches(labels.Set(v.pods.Labels)) {
		v.report(field.Invalid(spec.Child("template", "metadata", "labels"), v.pods.Labels, "`selector` does not match template `labels`"))
	}
}

// template validates the additional requirements for the pod template of a DaemonSet.
func (v *validator) template(path *field.Path) {
	spec := path.Child("spec")
	// The API server has set the default Always.
	policy := v.pods.Spec.RestartPolicy
	if policy != corev1.RestartPolicyAlways && policy != "" {
		v.report(field.NotSupported(spec.Child("restartPolicy"), policy, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if v.pods.Spec.ActiveDeadlineSeconds != nil {
		v.report(field.Forbidden(spec.Child("activeDeadlineSeconds"), "activeDeadlineSeconds in DaemonSet is not Supported"))
	}
}

// placement rejects a new template whose placement rules are so expensive that other sets would need to wait.
func (v *validator) placement(path *field.Path, old map[string]any) {
	var required *corev1.NodeSelector
	if a := v.pods.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		required = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	terms := placement.Terms(required, v.pods.Spec.Tolerations)
	if terms <= placement.MaxTerms || old != nil && samePlacement(v.obj, old) {
		return
	}
	v.report(field.Invalid(path.Child("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"), field.OmitValueType{},
		fmt.Sprintf("has, with the tolerations, %d expressions and values, each of which is compared with every node: have at most %d, for example by labelling the nodes",
			terms, placement.MaxTerms)))
}

// selectorOfNodes rejects a new selector of the nodes to update whose terms are too many, for the same reason.
func (v *validator) selectorOfNodes(path *field.Path, old map[string]any) {
	rolling := v.typed.UpdateStrategy.RollingUpdate
	if rolling == nil || rolling.Selector == nil {
		return
	}
	if old == nil || !sameAt(v.obj, old, "spec", "updateStrategy", "rollingUpdate", "selector") {
		v.report(tooManyTerms(rolling.Selector, path, "node")...)
	}
}

// tooManyTerms rejects a selector with more than placement.MaxTerms terms; what is compared with it, a node or a pod.
func tooManyTerms(selector *metav1.LabelSelector, path *field.Path, what string) field.ErrorList {
	terms := len(selector.MatchLabels)
	for i := range selector.MatchExpressions {
		terms += 1 + len(selector.MatchExpressions[i].Values)
	}
	if terms <= placement.MaxTerms {
		return nil
	}
	return field.ErrorList{field.Invalid(path, field.OmitValueType{}, fmt.Sprintf(
		"has %d labels, expressions and values, each of which is compared with every %[2]s: have at most %[3]d, for example by labelling the %[2]ss", terms, what, placement.MaxTerms))}
}

// sameAt reports whether two objects have the same at a path.
func sameAt(a, b map[string]any, path ...string) bool {
	of, _, _ := unstructured.NestedFieldNoCopy(a, path...)
	was, _, _ := unstructured.NestedFieldNoCopy(b, path...)
	return reflect.DeepEqual(of, was)
}

// samePlacement reports whether the templates of two objects have the same placement rules: rules that an earlier
// version has admitted must not prevent a new image.
func samePlacement(a, b map[string]any) bool {
	return sameAt(a, b, "spec", "template", "spec", "affinity") && sameAt(a, b, "spec", "template", "spec", "tolerations")
}

// immutable rejects a change of the selector: a DaemonSet with another selector would lose its pods.
func (v *validator) immutable() {
	fields := "'BurstReplicas', 'template', 'lifecycle', 'scaleStrategy', 'updateStrategy', 'minReadySeconds', and 'revisionHistoryLimit'"
	if v.alpha {
		fields = "'BurstReplicas', 'template', 'lifecycle', 'updateStrategy', 'minReadySeconds', and 'revisionHistoryLimit'"
	}
	v.report(field.Forbidden(field.NewPath("spec"), "updates to daemonset spec for fields other than "+fields+" are forbidden"),
		field.Invalid(field.NewPath("spec", "selector"), selectorOf(v.obj), apivalidation.FieldImmutableErrorMsg))
}

func selectorOf(obj map[string]any) any {
	spec, _ := obj["spec"].(map[string]any)
	return spec["selector"]
}

// same reports whether two selectors are equal; an empty list and an absent list are the same.
func same(a, b any) bool {
	x, errX := readSelector(a)
	y, errY := readSelector(b)
	if errX != nil || errY != nil {
		return reflect.DeepEqual(a, b)
	}
	return apiequality.Semantic.DeepEqual(x, y)
}

func readSelector(value any) (*metav1.LabelSelector, error) {
	fields, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%v is not a selector", value)
	}
	into := metav1.LabelSelector{}
	return &into, fromUnstructured(fields, &into)
}

// nonNegative rejects a number below 0.
func nonNegative(value int64, path *field.Path) field.ErrorList {
	return apivalidation.ValidateNonnegativeField(value, path)
}
