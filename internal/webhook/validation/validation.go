// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
)

// Options say what else is known.
type Options struct {
	// TemplateChecked is whether the API server has judged the pod template. Without it, the template must not have
	// fields that our own types do not know.
	TemplateChecked bool
}

// Result is what there is to say about an object.
type Result struct {
	Errors   field.ErrorList
	Warnings []string
}

// Create judges a new object, after defaulting.
func Create(obj map[string]any, options Options) Result {
	v := newValidator(obj, options)
	v.annotations(nil)
	v.spec()
	return v.result
}

// Update judges a change of an object, after defaulting. Both are of the same version.
func Update(obj, old map[string]any, options Options) Result {
	v := newValidator(obj, options)
	v.annotations(annotationsOf(old))
	if !reflect.DeepEqual(obj["spec"], old["spec"]) {
		v.spec()
		v.immutable(old)
	}
	return v.result
}

// validator collects what is wrong with one object.
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

// spec judges the specification: first whether it can be read at all, then what it says.
func (v *validator) spec() {
	path := field.NewPath("spec")
	if !v.decode() {
		return
	}
	v.selector(path)
	v.template(path.Child("template"))
	v.report(nonNegative(int64(v.typed.MinReadySeconds), path.Child("minReadySeconds"))...)
	if limit := v.typed.RevisionHistoryLimit; limit != nil {
		v.report(nonNegative(int64(*limit), path.Child("revisionHistoryLimit"))...)
	}
	v.burst(path.Child("burstReplicas"))
	v.strategy(path.Child("updateStrategy"))
	v.lifecycle(path.Child("lifecycle"))
	v.scaling(path.Child("scaleStrategy"))
}
