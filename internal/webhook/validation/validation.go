// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
)

// Options are additional facts for the validation.
type Options struct {
	// TemplateChecked reports whether the API server has validated the pod template. If not, the template must not have
	// fields that our types do not have.
	TemplateChecked bool
}

// Result is the result of a validation.
type Result struct {
	Errors   field.ErrorList
	Warnings []string
}

// Create validates a new object, after defaulting.
func Create(obj map[string]any, options Options) Result {
	v := newValidator(obj, options)
	v.name()
	v.annotations(nil)
	v.spec(nil)
	return v.result
}

// Update validates a change of an object, after defaulting. Both must have the same version.
func Update(obj, old map[string]any, options Options) Result {
	v := newValidator(obj, options)
	v.annotations(annotationsOf(old))
	if !reflect.DeepEqual(obj["spec"], old["spec"]) {
		v.spec(old)
	}
	return v.result
}

// validator collects the errors of one object.
type validator struct {
	Options
	obj    map[string]any
	alpha  bool
	typed  v1beta1.DaemonSetSpec
	pods   corev1.PodTemplateSpec
	result Result
}

func newValidator(obj map[string]any, options Options) *validator {
	version, _ := obj["apiVersion"].(string)
	return &validator{Options: options, obj: obj, alpha: strings.HasSuffix(version, "/"+kruise.VersionAlpha)}
}

func (v *validator) report(errs ...*field.Error) { v.result.Errors = append(v.result.Errors, errs...) }

func (v *validator) warn(path *field.Path, sentence string) {
	v.result.Warnings = append(v.result.Warnings, path.String()+": "+sentence)
}

// MaxName is the maximum length of the name of a DaemonSet: the name of a revision consists of this name, a dash, and a
// hash of up to 10 characters.
const MaxName = validation.DNS1123SubdomainMaxLength - 1 - 10

// name rejects a name for which no revision, and so no pod, could be created.
func (v *validator) name() {
	metadata, _ := v.obj["metadata"].(map[string]any)
	if name, _ := metadata["name"].(string); len(name) > MaxName {
		v.report(field.Invalid(field.NewPath("metadata", "name"), name,
			fmt.Sprintf("must be no more than %d characters, because the names of revisions consist of it and up to 11 more: use a shorter name", MaxName)))
	}
}

// spec validates the specification. old is nil for a new object.
func (v *validator) spec(old map[string]any) {
	path := field.NewPath("spec")
	if !v.decode() {
		return
	}
	if old == nil || same(selectorOf(v.obj), selectorOf(old)) {
		v.selector(path)
	} else {
		v.immutable() // a change of the selector is always an error
	}
	v.template(path.Child("template"))
	v.placement(path.Child("template", "spec"), old)
	v.selectorOfNodes(path.Child("updateStrategy", "rollingUpdate", "selector"), old)
	v.report(nonNegative(int64(v.typed.MinReadySeconds), path.Child("minReadySeconds"))...)
	if limit := v.typed.RevisionHistoryLimit; limit != nil {
		v.report(nonNegative(int64(*limit), path.Child("revisionHistoryLimit"))...)
	}
	v.burst(path.Child("burstReplicas"))
	v.strategy(path.Child("updateStrategy"))
	v.lifecycle(path.Child("lifecycle"))
	v.scaling(path.Child("scaleStrategy"))
}
