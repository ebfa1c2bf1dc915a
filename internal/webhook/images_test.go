// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
)

const pullJob = `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"ImagePullJob","metadata":{"name":"pull"},"spec":{"image":"agent:2"}}`

func TestJobsAreDefaultedAndJudged(t *testing.T) {
	response := jobs().mutator().Handle(t.Context(), request(admissionv1.Create, pullJob, ""))
	var paths []string
	for _, patch := range response.Patches {
		paths = append(paths, patch.Path)
	}
	slices.Sort(paths)
	if want := []string{"/spec/completionPolicy", "/spec/imagePullPolicy", "/spec/pullPolicy"}; !response.Allowed || !slices.Equal(paths, want) {
		t.Errorf("filled in %q, want %q: %v", paths, want, response.Result)
	}
	complete := strings.Replace(pullJob, `"image":"agent:2"`, `"image":"agent:2","completionPolicy":{"type":"Always"}`, 1)
	if response := jobs().validator().Handle(t.Context(), request(admissionv1.Create, complete, "")); !response.Allowed {
		t.Errorf("refused: %v", response.Result)
	}
	response = jobs().validator().Handle(t.Context(), request(admissionv1.Update, strings.Replace(complete, "agent:2", "", 1), complete))
	if response.Allowed || response.Result.Code != http.StatusUnprocessableEntity ||
		response.Result.Message != `ImagePullJob.apps.kruise.io "pull" is invalid: spec.image: Required value: image can not be empty` {
		t.Errorf("got %v", response.Result)
	}
	if response := jobs().validator().Handle(t.Context(), request(admissionv1.Delete, "", complete)); !response.Allowed {
		t.Errorf("a deletion was refused: %v", response.Result)
	}
	if response := jobs().mutator().Handle(t.Context(), request(admissionv1.Create, "[", "")); response.Allowed || response.Result.Code != http.StatusBadRequest {
		t.Errorf("got %v", response.Result)
	}
}

func TestNodeImagesAreDefaultedAndJudged(t *testing.T) {
	const nodeImage = `{"kind":"NodeImage","metadata":{"name":"n1"},"spec":{"images":{"agent":{"tags":[{"tag":"2"}]}}}}`
	response := nodeImages().mutator().Handle(t.Context(), request(admissionv1.Create, nodeImage, ""))
	when := ""
	for _, patch := range response.Patches {
		if strings.HasSuffix(patch.Path, "/createdAt") {
			when, _ = patch.Value.(string)
		}
	}
	if at, err := time.Parse(time.RFC3339, when); err != nil || time.Since(at) > time.Minute {
		t.Errorf("createdAt is %q: %v", when, response.Patches)
	}
	response = nodeImages().validator().Handle(t.Context(), request(admissionv1.Create, nodeImage, ""))
	if response.Allowed || !strings.Contains(response.Result.Message, "createAt field for agent/2 can not be empty") {
		t.Errorf("got %v", response.Result)
	}
}
