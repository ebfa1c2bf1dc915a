// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/webhook/defaulting"
	"everynode.dev/everynode/internal/webhook/validation"
)

// kindHandlers are the functions for a kind for which the API server need not be asked.
type kindHandlers struct {
	kind     string
	fill     func(obj map[string]any)
	validate func(obj, old map[string]any) validation.Result
}

func jobs() kindHandlers {
	return kindHandlers{kruise.KindJob, defaulting.ImagePullJob, validation.ImagePullJob}
}

func nodeImages() kindHandlers {
	fill := func(obj map[string]any) { defaulting.NodeImage(obj, time.Now().UTC().Format(time.RFC3339)) }
	return kindHandlers{kruise.KindNodeImage, fill, validation.NodeImage}
}

// mutator sets defaults.
func (j kindHandlers) mutator() admission.Handler {
	return admission.HandlerFunc(func(_ context.Context, request admission.Request) admission.Response {
		c, err := readChange(request)
		if err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
		if c.obj == nil || c.sameSpec() {
			return admission.Allowed("")
		}
		j.fill(c.obj)
		data, err := json.Marshal(c.obj)
		if err != nil {
			return admission.Errored(http.StatusInternalServerError, err)
		}
		return admission.PatchResponseFromRaw(request.Object.Raw, data)
	})
}

// validator rejects invalid objects.
func (j kindHandlers) validator() admission.Handler {
	return admission.HandlerFunc(func(_ context.Context, request admission.Request) admission.Response {
		c, err := readChange(request)
		if err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
		if c.obj == nil {
			return admission.Allowed("")
		}
		result := j.validate(c.obj, c.old)
		if len(result.Errors) > 0 {
			return refuse(j.kind, c.obj, result.Errors).WithWarnings(result.Warnings...)
		}
		return admission.Allowed("").WithWarnings(result.Warnings...)
	})
}
