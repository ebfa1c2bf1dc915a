// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/klog/v2"

	"everynode.dev/everynode/internal/webhook/conversion"
)

// largestReview is the most that a review may have; the API server asks for a few hundred objects at once. Most have less than smallReview.
const (
	largestReview = 256 << 20
	smallReview   = 8 << 20
)

// How many reviews are read at once, of either size, how long one waits for its turn, and for how long it is read. Anyone who reaches the address may send
// reviews, for the API server shows no certificate of its own: so what they can take is memory for so many, and never the turns of all others for long.
const (
	smallAtOnce, largeAtOnce = 16, 2
	turnTimeout              = 5 * time.Second
	readTimeout              = 10 * time.Second
)

// converter converts objects between the versions of the API. The one of controller-runtime goes through typed objects,
// which would lose what our types do not know. Make one with newConverter.
type converter struct {
	small, large chan struct{} // a turn is an element
	turn         time.Duration
}

func newConverter() *converter {
	return &converter{small: make(chan struct{}, smallAtOnce), large: make(chan struct{}, largeAtOnce), turn: turnTimeout}
}

// enter waits for the turn of a review, and returns how large that may be.
func (c *converter) enter(r *http.Request) (limit int64, leave func(), ok bool) {
	turns, limit := c.small, int64(smallReview)
	if r.ContentLength < 0 || r.ContentLength > smallReview {
		turns, limit = c.large, largestReview
	}
	timer := time.NewTimer(c.turn)
	defer timer.Stop()
	select {
	case turns <- struct{}{}:
		return limit, func() { <-turns }, true
	case <-r.Context().Done():
	case <-timer.C:
	}
	return 0, nil, false
}

// ServeHTTP implements http.Handler.
func (c *converter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	limit, leave, ok := c.enter(r)
	if !ok {
		http.Error(w, "too many conversions are under way: try again", http.StatusServiceUnavailable)
		return
	}
	defer leave()
	// Who sends slowly keeps a turn from others. A server that knows no deadlines is one of a test.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTimeout))
	var review apiextensionsv1.ConversionReview
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, limit)).Decode(&review)
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
