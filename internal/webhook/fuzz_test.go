// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// FuzzConverter: whatever is sent to be converted, the answer says what is wrong with it, or holds all objects, in their order and in the version that
// was asked for.
func FuzzConverter(f *testing.F) {
	for _, objects := range []string{
		``, `{}`, `null`, `1,{"kind":"DaemonSet"}`, `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"DaemonSet","status":{"daemonSetHash":"x"}}`,
		`{"apiVersion":"apps.kruise.io/v1beta1","kind":"DaemonSet"},{"apiVersion":"apps.kruise.io/v1alpha1","kind":"CloneSet"}`,
	} {
		f.Add(`{"kind":"ConversionReview","request":{"uid":"u1","desiredAPIVersion":"apps.kruise.io/v1beta1","objects":[` + objects + `]}}`)
	}
	f.Add(`{"request":`)
	f.Fuzz(func(t *testing.T, body string) {
		var sent, answer apiextensionsv1.ConversionReview
		wrong := json.NewDecoder(strings.NewReader(body)).Decode(&sent) != nil || sent.Request == nil
		code, text := convert(t, body)
		if wrong {
			if code != http.StatusBadRequest || text == "" {
				t.Errorf("what is no review is answered %d %q", code, text)
			}
			return
		}
		if err := json.Unmarshal([]byte(text), &answer); code != http.StatusOK || err != nil || answer.Request != nil || answer.Response == nil {
			t.Fatalf("a review is answered %d %s: %v", code, text, err)
		}
		r := answer.Response
		switch failed := r.Result.Status == metav1.StatusFailure; {
		case r.UID != sent.Request.UID:
			t.Errorf("the answer to %q is to %q", sent.Request.UID, r.UID)
		case failed && (len(r.ConvertedObjects) > 0 || r.Result.Message == ""):
			t.Errorf("some is converted, or there is no reason: %s", text)
		case !failed && (r.Result.Status != metav1.StatusSuccess || len(r.ConvertedObjects) != len(sent.Request.Objects)):
			t.Errorf("%d objects become %s", len(sent.Request.Objects), text)
		}
		for i := range r.ConvertedObjects {
			checkConverted(t, sent.Request.Objects[i].Raw, r.ConvertedObjects[i].Raw, sent.Request.DesiredAPIVersion)
		}
	})
}

// checkConverted compares what may not differ, whatever the versions are.
func checkConverted(t *testing.T, before, after []byte, version string) {
	t.Helper()
	var was, is map[string]any
	if err := json.Unmarshal(before, &was); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(after, &is); err != nil {
		t.Fatal(err)
	}
	name := func(obj map[string]any) any {
		metadata, _ := obj["metadata"].(map[string]any)
		return metadata["name"]
	}
	if is["apiVersion"] != version || is["kind"] != was["kind"] || !reflect.DeepEqual(name(is), name(was)) {
		t.Errorf("%s becomes %s", before, after)
	}
}
