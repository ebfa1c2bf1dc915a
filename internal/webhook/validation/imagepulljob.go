// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"reflect"
	"slices"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/imageref"
)

// ImagePullJob validates a new or changed ImagePullJob of any version, after defaulting; old is nil for a new one.
func ImagePullJob(obj, old map[string]any) Result {
	if old != nil && reflect.DeepEqual(obj["spec"], old["spec"]) {
		return Result{}
	}
	into := v1beta1.ImagePullJob{}
	path := field.NewPath("spec")
	errs, ok := decodeSpec(obj, &into, "an image pull job")
	if !ok {
		return Result{Errors: errs}
	}
	j := jobValidator{spec: &into.Spec, obj: obj, old: old, errs: errs}
	j.image(path.Child("image"))
	j.secrets(path.Child("pullSecrets"))
	j.nodes(path.Child("selector"))
	j.pods(path.Child("podSelector"))
	j.parallelism(path.Child("parallelism"))
	j.pull(path)
	j.completion(path.Child("completionPolicy"))
	return Result{Errors: j.errs}
}

// decodeSpec decodes the specification of obj, and reports unknown fields. It returns false if it cannot be decoded.
func decodeSpec(obj map[string]any, into runtime.Object, what string) (field.ErrorList, bool) {
	path := field.NewPath("spec")
	spec, ok := obj["spec"].(map[string]any)
	if !ok {
		return field.ErrorList{field.Required(path, what+" needs a specification")}, false
	}
	unknown, err := decodeStrictly(map[string]any{"spec": spec}, into)
	if err != nil {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, err.Error())}, false
	}
	errs := field.ErrorList{}
	for _, at := range unknown {
		errs = append(errs, unknownField(at, what))
	}
	return errs, true
}

// jobValidator collects the errors of one ImagePullJob.
type jobValidator struct {
	spec     *v1beta1.ImagePullJobSpec
	obj, old map[string]any // old is nil for a new job
	errs     field.ErrorList
}

func (j *jobValidator) report(errs ...*field.Error) { j.errs = append(j.errs, errs...) }

func (j *jobValidator) image(path *field.Path) {
	if j.spec.Image == "" {
		j.report(field.Required(path, "image can not be empty"))
		return
	}
	if _, _, err := imageref.Split(j.spec.Image); err != nil {
		j.report(field.Invalid(path, j.spec.Image, fmt.Sprintf("invalid image %s: %v", j.spec.Image, err)))
	}
}

func (j *jobValidator) secrets(path *field.Path) {
	for i, name := range j.spec.PullSecrets {
		for _, message := range apivalidation.NameIsDNSSubdomain(name, false) {
			j.report(field.Invalid(path.Index(i), name, message))
		}
	}
	if j.old == nil {
		return
	}
	before := v1beta1.ImagePullJob{}
	if _, ok := decodeSpec(j.old, &before, "an image pull job"); ok && !slices.Equal(before.Spec.PullSecrets, j.spec.PullSecrets) {
		j.report(field.Forbidden(path, "spec.pullSecrets is immutable"))
	}
}

// nodes validates the selection of nodes.
func (j *jobValidator) nodes(path *field.Path) {
	selector := j.spec.Selector
	if selector == nil {
		return
	}
	if j.spec.PodSelector != nil {
		j.report(field.Forbidden(path, "can not set both selector and podSelector"))
	}
	if selector.Names != nil && (selector.MatchLabels != nil || selector.MatchExpressions != nil) {
		j.report(field.Forbidden(path, "can not set both names and labelSelector in this spec.selector"))
	}
	seen := map[string]bool{}
	for i, name := range selector.Names {
		if seen[name] {
			duplicate := field.Duplicate(path.Child("names").Index(i), name)
			duplicate.Detail = "duplicated name in selector names"
			j.report(duplicate)
		}
		seen[name] = true
	}
	j.labels(&selector.LabelSelector, path, "node")
}

func (j *jobValidator) pods(path *field.Path) {
	if j.spec.PodSelector != nil {
		j.labels(&j.spec.PodSelector.LabelSelector, path, "pod")
	}
}

// labels validates a selector of what, nodes or pods. One that an earlier version has admitted prevents no other edit.
func (j *jobValidator) labels(selector *metav1.LabelSelector, path *field.Path, what string) {
	j.report(metavalidation.ValidateLabelSelector(selector, metavalidation.LabelSelectorValidationOptions{}, path)...)
	if j.old == nil || !sameAt(j.obj, j.old, "spec", "selector") || !sameAt(j.obj, j.old, "spec", "podSelector") {
		j.report(tooManyTerms(selector, path, what)...)
	}
}

func (j *jobValidator) parallelism(path *field.Path) {
	switch p := j.spec.Parallelism; {
	case p == nil:
	case p.Type == intstr.String:
		j.report(field.Invalid(path, p.StrVal, "parallelism does not support percentage value"))
	case p.IntVal < 0:
		j.report(field.Invalid(path, p.IntVal, "parallelism must be non-negative"))
	}
}

// pull validates the settings for the pull on a node.
func (j *jobValidator) pull(spec *field.Path) {
	switch j.spec.ImagePullPolicy {
	case v1beta1.PullAlways, v1beta1.PullIfNotPresent, "":
	default:
		j.report(field.NotSupported(spec.Child("imagePullPolicy"), j.spec.ImagePullPolicy,
			[]v1beta1.ImagePullPolicy{v1beta1.PullAlways, v1beta1.PullIfNotPresent}))
	}
	policy, path := j.spec.PullPolicy, spec.Child("pullPolicy")
	if policy == nil {
		return
	}
	if t := policy.TimeoutSeconds; t != nil && *t <= 0 {
		j.report(field.Invalid(path.Child("timeoutSeconds"), *t, "must be greater than 0"))
	}
	if b := policy.BackoffLimit; b != nil {
		j.report(nonNegative(int64(*b), path.Child("backoffLimit"))...)
	}
}

func (j *jobValidator) completion(path *field.Path) {
	c := &j.spec.CompletionPolicy
	switch c.Type {
	case v1beta1.CompletionAlways:
		j.deadlines(path)
	case v1beta1.CompletionNever:
		if c.ActiveDeadlineSeconds != nil || c.TTLSecondsAfterFinished != nil {
			j.report(field.Forbidden(path, "activeDeadlineSeconds and ttlSecondsAfterFinished can only work with Always CompletionPolicyType"))
		}
	default:
		unknown := field.NotSupported(path.Child("type"), c.Type, []v1beta1.CompletionPolicyType{v1beta1.CompletionAlways, v1beta1.CompletionNever})
		unknown.Detail = fmt.Sprintf("unknown type of completionPolicy: %s: %s", c.Type, unknown.Detail)
		j.report(unknown)
	}
}

func (j *jobValidator) deadlines(path *field.Path) {
	c := &j.spec.CompletionPolicy
	if ttl := c.TTLSecondsAfterFinished; ttl != nil {
		j.report(nonNegative(int64(*ttl), path.Child("ttlSecondsAfterFinished"))...)
	}
	timeout := int64(kruise.PullTimeoutSeconds)
	if p := j.spec.PullPolicy; p != nil && p.TimeoutSeconds != nil {
		timeout = int64(*p.TimeoutSeconds)
	}
	if deadline := c.ActiveDeadlineSeconds; deadline != nil && *deadline <= timeout {
		j.report(field.Invalid(path.Child("activeDeadlineSeconds"), *deadline,
			"completionPolicy.activeDeadlineSeconds must be greater than pullPolicy.timeoutSeconds(default 600)"))
	}
}
