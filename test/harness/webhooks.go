// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Webhook registers a webhook for an operation, in capitals, on pods of the space, and removes it at the end of the test at the latest. It is only called
// for requests for which all of the conditions, CEL expressions, are true.
func (s *Space) Webhook(server *httptest.Server, operation, failurePolicy string, conditions ...string) (remove func()) {
	s.t.Helper()
	var match strings.Builder
	for i, condition := range conditions {
		fmt.Fprintf(&match, "{name: condition-%d, expression: %q}, ", i, condition)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return s.Apply(fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: %[1]s}
webhooks:
- name: pods.neighbour.example
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: %[3]s
  clientConfig: {url: %[4]q, caBundle: %[5]s}
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [%[2]s], resources: [pods]}]
  matchConditions: [%[6]s]
`, s.Name, operation, failurePolicy, server.URL, base64.StdEncoding.EncodeToString(certificate), match.String()))
}

// SilentMutators registers two webhooks that are called one after the other for each pod that is created in the space, with these time-outs. They never answer,
// and their failures are ignored.
func (s *Space) SilentMutators(first, second time.Duration) {
	s.t.Helper()
	server := SilentWebhook(s.t)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	manifest := fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: %s}
webhooks:
`, s.Name)
	for i, timeout := range []time.Duration{first, second} {
		manifest += fmt.Sprintf(`
- name: pods-%[2]d.neighbour.example
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Ignore
  timeoutSeconds: %.0[3]f
  clientConfig: {url: %[4]q, caBundle: %[5]s}
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
`, s.Name, i, timeout.Seconds(), server.URL, base64.StdEncoding.EncodeToString(certificate))
	}
	s.Apply(manifest)
}

// WebhookThatIsDown is the server of a webhook to which nobody can connect.
func WebhookThatIsDown() *httptest.Server {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	server.Close()
	return server
}

// SilentWebhook is the server of a webhook that accepts connections, and answers nothing until the test ends.
func SilentWebhook(t testing.TB) *httptest.Server {
	return LateWebhook(t, time.Hour, true, "")
}

// LateWebhook is the server of a webhook that answers after a while. What it denies it denies without a code, which the API server turns into 400.
func LateWebhook(t testing.TB, late time.Duration, allowed bool, message string) *httptest.Server {
	end := make(chan struct{})
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		review := admissionv1.AdmissionReview{}
		if err = errors.Join(err, json.Unmarshal(body, &review)); err != nil || review.Request == nil {
			http.Error(w, fmt.Sprint("no review: ", err), http.StatusBadRequest)
			return
		}
		select {
		case <-time.After(late):
		case <-end:
		case <-r.Context().Done():
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: allowed, Result: &metav1.Status{Message: message}}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review) // the API server may have stopped waiting
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(end) })
	return server
}
