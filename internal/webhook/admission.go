// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"fmt"
	"net/http"
	"reflect"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/webhook/defaulting"
	"everynode.dev/everynode/internal/webhook/validation"
)

// mutator sets defaults.
type mutator struct {
	checker TemplateChecker
}

// Handle implements admission.Handler.
func (m *mutator) Handle(ctx context.Context, request admission.Request) admission.Response {
	c, err := readChange(request)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if c.obj == nil || c.sameSpec() {
		// Labels and deletion must still work for an object that was created without defaulting or validation.
		return admission.Allowed("")
	}
	defaulting.Default(c.obj)
	judgement, err := c.check(ctx, m.checker)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	if len(judgement.Wrong) > 0 {
		// Report all errors at once.
		return c.refuse(append(c.validate().Errors, judgement.Wrong...)).WithWarnings(judgement.Warnings...)
	}
	if judgement.Defaulted != nil {
		c.spec()["template"] = judgement.Defaulted
	}
	data, err := json.Marshal(c.obj)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	// The validator may return the same warnings; the API server removes duplicates.
	return admission.PatchResponseFromRaw(request.Object.Raw, data).WithWarnings(judgement.Warnings...)
}

// validator rejects invalid objects.
type validator struct {
	checker TemplateChecker
}

// Handle implements admission.Handler.
func (v *validator) Handle(ctx context.Context, request admission.Request) admission.Response {
	c, err := readChange(request)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if c.obj == nil {
		return admission.Allowed("")
	}
	// Other webhooks may have changed the template after the mutator.
	judgement, err := c.check(ctx, v.checker)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	result := c.validate()
	warnings := append(result.Warnings, judgement.Warnings...)
	if errs := append(result.Errors, judgement.Wrong...); len(errs) > 0 {
		return c.refuse(errs).WithWarnings(warnings...)
	}
	return admission.Allowed("").WithWarnings(warnings...)
}

// change is the content of a request: old is nil for a new object; obj is nil for a request that neither creates nor
// changes an object.
type change struct {
	obj, old  map[string]any
	namespace string
}

func readChange(request admission.Request) (c change, err error) {
	c.namespace = request.Namespace
	if request.Operation != admissionv1.Create && request.Operation != admissionv1.Update {
		return c, nil
	}
	if err := json.Unmarshal(request.Object.Raw, &c.obj); err != nil {
		return c, fmt.Errorf("decoding the object: %w", err)
	}
	if c.obj == nil {
		return c, fmt.Errorf("decoding the object: the %s request contains none", request.Operation)
	}
	if request.Operation == admissionv1.Update {
		if err := json.Unmarshal(request.OldObject.Raw, &c.old); err != nil {
			return c, fmt.Errorf("decoding the old object: %w", err)
		}
	}
	return c, nil
}

func (c change) spec() map[string]any {
	spec, _ := c.obj["spec"].(map[string]any)
	return spec
}

// sameSpec reports whether an update does not change the specification.
func (c change) sameSpec() bool {
	return c.old != nil && reflect.DeepEqual(c.obj["spec"], c.old["spec"])
}

// check checks the template if it has changed. A value that is not an object is left to validation.
func (c change) check(ctx context.Context, checker TemplateChecker) (Judgement, error) {
	template, ok := c.spec()["template"].(map[string]any)
	if !ok {
		return Judgement{}, nil
	}
	oldSpec, _ := c.old["spec"].(map[string]any)
	if reflect.DeepEqual(template, oldSpec["template"]) {
		return Judgement{}, nil
	}
	return checker.Check(ctx, c.namespace, template)
}

// validate validates everything except the template, which is unchanged or validated by the API server.
func (c change) validate() validation.Result {
	options := validation.Options{TemplateChecked: true}
	if c.old == nil {
		return validation.Create(c.obj, options)
	}
	return validation.Update(c.obj, c.old, options)
}

// refuse answers as the API server does for an invalid object.
func (c change) refuse(errs field.ErrorList) admission.Response {
	return refuse(kruise.Kind, c.obj, errs)
}

// refuse answers that obj of that kind is invalid.
func refuse(kind string, obj map[string]any, errs field.ErrorList) admission.Response {
	metadata, _ := obj["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	status := apierrors.NewInvalid(schema.GroupKind{Group: kruise.Group, Kind: kind}, name, errs).Status()
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &status}}
}
