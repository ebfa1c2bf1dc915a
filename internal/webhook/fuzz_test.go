// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"encoding/json"
	"net/http"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// FuzzAdmission: whatever an API server passes on, each webhook answers it. What is filled in can be filled in, and leaves nothing to fill in
// the next time; what is refused is refused with a reason.
func FuzzAdmission(f *testing.F) {
	f.Add(agent, "")
	f.Add(agent, agent)
	f.Add(pullJob, "")
	f.Add(`{"kind":"NodeImage","metadata":{"name":"n1"},"spec":{"images":{"agent":{"tags":[{"tag":"2"}]}}}}`, "")
	f.Fuzz(func(t *testing.T, obj, old string) {
		operation := admissionv1.Create
		if old != "" {
			operation = admissionv1.Update
		}
		checker := &fakeChecker{}
		for kind, w := range map[string]struct{ mutator, validator admission.Handler }{
			"DaemonSet":    {&mutator{checker}, &validator{checker}},
			"ImagePullJob": {jobs().mutator(), jobs().validator()},
			"NodeImage":    {nodeImages().mutator(), nodeImages().validator()},
		} {
			answer := w.mutator.Handle(t.Context(), request(operation, obj, old))
			if !judged(t, kind, answer) {
				continue
			}
			filled := patched(t, obj, answer)
			if again := w.mutator.Handle(t.Context(), request(operation, filled, old)); judged(t, kind, again) && len(again.Patches) > 0 {
				t.Errorf("%s: filled in once it is %s, and then there is %v to fill in", kind, filled, again.Patches)
			}
			judged(t, kind, w.validator.Handle(t.Context(), request(operation, filled, old)))
		}
	})
}

// judged is whether something was allowed. A refusal is one that names its reason.
func judged(t *testing.T, kind string, answer admission.Response) bool {
	t.Helper()
	if answer.Allowed {
		return true
	}
	r := answer.Result
	if r == nil || r.Message == "" || r.Code != http.StatusBadRequest && r.Code != http.StatusUnprocessableEntity {
		t.Errorf("%s: refused with %v", kind, r)
	}
	return false
}

// patched is an object after what an answer fills in.
func patched(t *testing.T, obj string, answer admission.Response) string {
	t.Helper()
	if len(answer.Patches) == 0 {
		return obj
	}
	data, err := json.Marshal(answer.Patches)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(data)
	if err != nil {
		t.Fatal(err)
	}
	result, err := patch.Apply([]byte(obj))
	if err != nil {
		t.Fatalf("%s cannot be applied to %s: %v", data, obj, err)
	}
	return string(result)
}
