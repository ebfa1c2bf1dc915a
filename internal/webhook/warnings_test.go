// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// heard is a handler that remembers what it was told.
type heard struct{ texts []string }

func (h *heard) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	h.texts = append(h.texts, text)
}

// TestDryRunWarns shows that what the API server warns of is said by the judgement, and to nobody else.
func TestDryRunWarns(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodGet {
			w.Header().Add("Warning", `299 - "an old resource"`)
		} else {
			w.Header().Add("Warning", `299 - "template.spec.containers[0].ports[1]: duplicate port definition with template.spec.containers[0].ports[0]"`)
			w.Header().Add("Warning", `299 - "template.metadata.annotations[template.spec]: spec.template.spec stays"`)
			w.Header().Add("Warning", `199 - "not for people"`)
		}
		_, _ = w.Write([]byte(`{"apiVersion":"v1","kind":"PodTemplate","metadata":{"name":"x"},"template":{"spec":{}}}`))
	}))
	defer api.Close()
	others := &heard{}
	client, err := dynamic.NewForConfig(&rest.Config{Host: api.URL, WarningHandlerWithContext: Collecting{Otherwise: others}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // each request has its own
		judgement, err := (&DryRun{Client: client}).Check(t.Context(), "agents", map[string]any{})
		want := []string{
			"spec.template.spec.containers[0].ports[1]: duplicate port definition with spec.template.spec.containers[0].ports[0]",
			"spec.template.metadata.annotations[template.spec]: spec.template.spec stays",
		}
		if err != nil || !slices.Equal(judgement.Warnings, want) || len(others.texts) > 0 {
			t.Errorf("got %q, %v, others heard %q", judgement.Warnings, err, others.texts)
		}
	}
	if _, err := client.Resource(corev1.SchemeGroupVersion.WithResource("podtemplates")).Namespace("agents").Get(t.Context(), "x", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(others.texts, []string{"an old resource"}) {
		t.Errorf("others heard %q", others.texts)
	}
}

// TestWarningsOfTheTemplateArePassedOn shows that both webhooks say what the API server warns of, also when they refuse.
func TestWarningsOfTheTemplateArePassedOn(t *testing.T) {
	warnings := []string{"spec.template.spec.containers[0].env[1]: hides previous definition"}
	for name, wrong := range map[string]field.ErrorList{"good": nil, "refused": {field.Required(field.NewPath("spec.template.x"), "")}} {
		checker := &fakeChecker{wrong: wrong, warnings: warnings}
		r := request(admissionv1.Create, agent, "")
		if got := (&mutator{checker}).Handle(t.Context(), r); !slices.Equal(got.Warnings, warnings) || got.Allowed != (wrong == nil) {
			t.Errorf("%s: the mutator says %q", name, got.Warnings)
		}
		if got := (&validator{checker}).Handle(t.Context(), r); !slices.Equal(got.Warnings, warnings) {
			t.Errorf("%s: the validator says %q", name, got.Warnings)
		}
	}
}

// TestAServerWithoutACertificateIsNotCalled shows that the check does not connect before there is something to serve with.
func TestAServerWithoutACertificateIsNotCalled(t *testing.T) {
	missing, calls := errors.New("no certificate"), 0
	check := startedWith(func() error { return missing }, func(*http.Request) error { calls++; return nil })
	if err := check(nil); !errors.Is(err, missing) || calls != 0 {
		t.Errorf("got %v after %d calls", err, calls)
	}
	missing = nil
	if err := check(nil); err != nil || calls != 1 {
		t.Errorf("got %v after %d calls", err, calls)
	}
}
