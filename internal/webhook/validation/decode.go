// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1alpha1"
	"everynode.dev/everynode/api/kruise/v1beta1"
)

// decode decodes the specification, and reports unknown fields. It returns false if it cannot be decoded.
func (v *validator) decode() bool {
	path := field.NewPath("spec")
	spec, ok := v.obj["spec"].(map[string]any)
	if !ok {
		v.report(field.Required(path, "a daemon set needs a specification"))
		return false
	}
	if !v.numbers(spec) {
		return false
	}
	// All fields of v1alpha1 have the same names in v1beta1, so the validation is written once.
	beta := v1beta1.DaemonSet{}
	unknown, err := decodeStrictly(map[string]any{"spec": spec}, &beta)
	if err == nil && v.alpha {
		unknown, err = decodeStrictly(map[string]any{"spec": spec}, &v1alpha1.DaemonSet{})
	}
	if err != nil {
		v.report(field.Invalid(path, field.OmitValueType{}, err.Error()))
		return false
	}
	for _, at := range unknown {
		v.report(unknownField(at, v.version()))
	}
	v.typed = beta.Spec
	return v.decodeTemplate(spec["template"], path.Child("template"))
}

// numbers validates numbers that no type could hold, because decoders do not report their path. It returns false if
// there is an error.
func (v *validator) numbers(spec map[string]any) bool {
	path := field.NewPath("spec")
	update, _ := spec["updateStrategy"].(map[string]any)
	rolling, _ := update["rollingUpdate"].(map[string]any)
	ok := v.fits(spec, path, "", "minReadySeconds", "revisionHistoryLimit")
	ok = v.fits(spec, path, orPercentage, "burstReplicas") && ok
	return v.fits(rolling, path.Child("updateStrategy", "rollingUpdate"), orPercentage, "maxUnavailable", "maxSurge", "partition") && ok
}

// orPercentage is the additional text for a field that is a number or a percentage.
const orPercentage = ", or a percentage"

// fits rejects numbers in these fields that do not fit into their types.
func (v *validator) fits(parent map[string]any, path *field.Path, orElse string, keys ...string) bool {
	ok := true
	for _, key := range keys {
		value := parent[key]
		if f, isFloat := value.(float64); isFloat && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			value = int64(f) // decoders represent whole numbers differently
		}
		n, isInt := value.(int64)
		if _, isFloat := value.(float64); isFloat || isInt && (n < math.MinInt32 || n > math.MaxInt32) {
			ok = false
			v.report(field.Invalid(path.Child(key), value, fmt.Sprintf("must be a whole number of at most %d%s", math.MaxInt32, orElse)))
		}
	}
	return ok
}

// decodeTemplate decodes the fields of the pod template that our types have.
func (v *validator) decodeTemplate(template any, path *field.Path) bool {
	if template == nil {
		v.report(field.Required(path, "a daemon set needs a pod template"))
		return false
	}
	into := corev1.PodTemplate{}
	unknown, err := decodeStrictly(map[string]any{"template": template}, &into)
	if err != nil {
		v.report(field.Invalid(path, field.OmitValueType{}, fmt.Sprintf("Convert_v1_PodTemplateSpec_To_core_PodTemplateSpec failed: %v", err)))
		return false
	}
	v.pods = into.Template
	if !v.TemplateChecked {
		for _, at := range unknown {
			v.report(unknownField("spec."+at, "a pod template"))
		}
	}
	return true
}

func (v *validator) version() string {
	if v.alpha {
		return kruise.Group + "/" + kruise.VersionAlpha
	}
	return kruise.Group + "/" + kruise.VersionBeta
}

// unknownField is the error for a field that what (a version, a type) does not have. It begins like the API server's
// error, which tools parse.
func unknownField(path, what string) *field.Error {
	remedy := "remove it, or correct its name"
	if strings.HasSuffix(path, ".rollingUpdate.type") {
		remedy = "write rollingUpdateType instead"
	}
	return field.Forbidden(field.NewPath(path), fmt.Sprintf("unknown field %q: %s has none of this name; %s", path, what, remedy))
}

// decodeStrictly decodes fields into a typed object, and returns the paths of those that its type does not have.
func decodeStrictly(fields map[string]any, into runtime.Object) (unknown []string, err error) {
	data, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	// If the scheme has no types, the decoder uses the given type.
	scheme := runtime.NewScheme()
	decoder := serializer.NewSerializerWithOptions(serializer.DefaultMetaFactory, scheme, scheme, serializer.SerializerOptions{Strict: true})
	_, _, err = decoder.Decode(data, nil, into)
	strict, isStrict := runtime.AsStrictDecodingError(err)
	if !isStrict {
		return nil, plain(err)
	}
	for _, problem := range strict.Errors() {
		if path, ok := strings.CutPrefix(problem.Error(), "unknown field "); ok {
			unknown = append(unknown, strings.Trim(path, `"`))
		}
	}
	return unknown, nil
}

// plain returns err without the prefixes of decoders.
func plain(err error) error {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return err
}

// fromUnstructured decodes fields into a typed value.
func fromUnstructured(fields map[string]any, into any) error {
	return runtime.DefaultUnstructuredConverter.FromUnstructured(fields, into)
}
