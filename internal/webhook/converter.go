// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"encoding/json"
	"fmt"
	"net/http"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/klog/v2"

	"everynode.dev/everynode/internal/webhook/conversion"
)

// largestReview is the most that a review may have; the API server asks for a few hundred objects at once.
const largestReview = 256 << 20

// converter converts objects between the versions of the API. The one of controller-runtime goes through typed objects,
// which would lose what our types do not know.
type converter struct{}

// ServeHTTP implements http.Handler.
func (converter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review apiextensionsv1.ConversionReview
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, largestReview)).Decode(&review)
	if err != nil || review.Request == nil {
		http.Error(w, fmt.Sprintf("this is no ConversionReview with a request: %v", err), http.StatusBadRequest)
		return
	}
	review.Response = convertAll(review.Request)
	review.Request = nil
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(review); err != nil {
		klog.FromContext(r.Context()).Error(err, "The answer to a conversion could not be written")
	}
}

// convertAll converts all objects of a request, or none.
func convertAll(request *apiextensionsv1.ConversionRequest) *apiextensionsv1.ConversionResponse {
	response := &apiextensionsv1.ConversionResponse{UID: request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	for _, raw := range request.Objects {
		converted, err := convertOne(raw.Raw, request.DesiredAPIVersion)
		if err != nil {
			response.ConvertedObjects = nil
			response.Result = metav1.Status{Status: metav1.StatusFailure, Message: err.Error(), Reason: metav1.StatusReasonInvalid}
			return response
		}
		response.ConvertedObjects = append(response.ConvertedObjects, runtime.RawExtension{Raw: converted})
	}
	return response
}

func convertOne(raw []byte, apiVersion string) ([]byte, error) {
	var obj map[string]any
	if err := utiljson.Unmarshal(raw, &obj); err != nil {
		return nil, fmt.Errorf("decoding an object to convert: %w", err)
	}
	converted, err := conversion.Convert(obj, apiVersion)
	if err != nil {
		return nil, err
	}
	return json.Marshal(converted)
}
