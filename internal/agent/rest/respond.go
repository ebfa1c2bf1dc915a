// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	v2 "everynode.dev/everynode/api/agent/v2"
)

const jsonType = "application/json"

// problem is the reason why a request is not served. The default reason depends on the code.
type problem struct {
	code    int
	reason  v2.Reason
	message string
}

// defaultReason returns the default reason of a code.
func defaultReason(code int) v2.Reason {
	switch code {
	case http.StatusBadRequest:
		return v2.ReasonBadRequest
	case http.StatusUnauthorized:
		return v2.ReasonUnauthorized
	case http.StatusForbidden:
		return v2.ReasonForbidden
	case http.StatusNotFound:
		return v2.ReasonNotFound
	case http.StatusMethodNotAllowed:
		return v2.ReasonMethodNotAllowed
	case http.StatusConflict:
		return v2.ReasonChanged
	case http.StatusRequestEntityTooLarge:
		return v2.ReasonTooLarge
	case http.StatusMisdirectedRequest:
		return v2.ReasonWrongHost
	case http.StatusTooManyRequests:
		return v2.ReasonTooMany
	case http.StatusBadGateway:
		return v2.ReasonClusterFailed
	case http.StatusServiceUnavailable:
		return v2.ReasonDisconnected
	}
	return v2.ReasonInternal
}

// writeProblem responds with a problem: as JSON below /v2, and as text elsewhere.
func writeProblem(w http.ResponseWriter, r *http.Request, p *problem) {
	switch p.code {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "1")
	}
	if !strings.HasPrefix(r.URL.Path, "/v2/") && r.URL.Path != "/v2" {
		writeText(w, p.code, p.message)
		return
	}
	if p.reason == "" {
		p.reason = defaultReason(p.code)
	}
	writeJSON(w, p.code, v2.Error{Code: p.code, Reason: p.reason, Message: p.message})
}

// writeJSON responds with JSON.
func writeJSON(w http.ResponseWriter, code int, body any) {
	data, err := json.Marshal(body)
	if err != nil {
		klog.ErrorS(err, "Encoding a response failed")
		writeText(w, http.StatusInternalServerError, "the response cannot be encoded as JSON")
		return
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	write(w, code, jsonType, append(data, '\n'))
}

// writeText responds like OpenYurt in case of an error: a text without a line end and without a content type.
func writeText(w http.ResponseWriter, code int, text string) { write(w, code, "", []byte(text)) }

func write(w http.ResponseWriter, code int, contentType string, body []byte) {
	if contentType != "" {
		w.Header().Set("Content-Type", contentType)
	}
	w.WriteHeader(code)
	if _, err := w.Write(body); err != nil {
		klog.V(2).InfoS("The client has closed the connection", "err", err)
	}
}

// decodeBody decodes a body, which may be empty.
func decodeBody(r *http.Request, into any) *problem {
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if err == nil {
		if _, more := decoder.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is data after the object")
		}
	}
	tooLarge := (*http.MaxBytesError)(nil)
	switch {
	case err == nil, errors.Is(err, io.EOF):
		return nil
	case errors.As(err, &tooLarge):
		return &problem{code: http.StatusRequestEntityTooLarge, message: fmt.Sprintf("the body is longer than %d bytes", tooLarge.Limit)}
	}
	return &problem{code: http.StatusBadRequest, message: "the body is not the JSON that /v2/openapi.json describes: " + err.Error()}
}

// problemOf converts an error of the API server to a problem.
func problemOf(err error) *problem {
	refused := (*refusal)(nil)
	switch {
	case errors.As(err, &refused):
		return &problem{code: refused.code(), reason: refused.reason, message: refused.text}
	case apierrors.IsNotFound(err):
		return &problem{code: http.StatusNotFound, message: err.Error()}
	case apierrors.IsConflict(err):
		return &problem{code: http.StatusConflict, message: err.Error()}
	}
	return &problem{code: http.StatusBadGateway, message: err.Error()}
}
