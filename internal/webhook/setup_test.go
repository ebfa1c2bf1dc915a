// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/config"
)

func TestOptions(t *testing.T) {
	for _, e := range []struct {
		o     Options
		names string
		err   string
	}{
		{Options{Mode: ModeService, Namespace: "system"}, "everynode-webhook.system.svc everynode-webhook.system everynode-webhook.system.svc.cluster.local", ""},
		{Options{Mode: ModeService, Namespace: "system", Service: "hooks"}, "hooks.system.svc hooks.system hooks.system.svc.cluster.local", ""},
		{Options{Mode: ModeURL, Namespace: "system", URL: "https://127.0.0.1:9443"}, "127.0.0.1", ""},
		{Options{Mode: ModeURL, Namespace: "system", URL: "https://[::1]:9443"}, "::1", ""},
		{Options{Mode: ModeURL, Namespace: "system", URL: "http://127.0.0.1"}, "", `webhooks: "http://127.0.0.1" is not a URL under which the API server can reach this manager: write https://host:port`},
		{Options{Mode: ModeURL, Namespace: "system"}, "", `webhooks: "" is not a URL under which the API server can reach this manager: write https://host:port`},
		{Options{Mode: "x", Namespace: "system"}, "", `webhooks: unknown mode "x": write service or url`},
		{Options{Mode: ModeService}, "", "webhooks: no namespace for the certificate: give one"},
	} {
		names, err := e.o.check()
		if strings.Join(names, " ") != e.names || (err == nil) != (e.err == "") || err != nil && err.Error() != e.err {
			t.Errorf("%+v: got %q, %v", e.o, names, err)
		}
	}
}

// TestManifests holds the manifests and the code to the same names.
func TestManifests(t *testing.T) {
	data, err := fs.ReadFile(config.Kruise, "kruise/20-webhooks.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for document := range strings.SplitSeq(string(data), "\n---\n") {
		var obj struct {
			Kind     string
			Metadata struct{ Name, Namespace string }
			Webhooks []struct {
				Name         string
				ClientConfig struct{ Service admissionv1.ServiceReference }
			}
		}
		if err := yaml.Unmarshal([]byte(document), &obj); err != nil {
			t.Fatal(err)
		}
		found = append(found, obj.Kind+" "+obj.Metadata.Name)
		for _, w := range obj.Webhooks {
			found = append(found, w.Name+" "+w.ClientConfig.Service.Name+" "+*w.ClientConfig.Service.Path)
		}
	}
	want := []string{
		"Service " + ServiceName,
		"MutatingWebhookConfiguration " + MutatingConfiguration, MutatingName + " " + ServiceName + " " + PathMutate,
		MutatingJobName + " " + ServiceName + " " + PathMutateJob, MutatingNodeImageName + " " + ServiceName + " " + PathMutateNodeImage,
		"ValidatingWebhookConfiguration " + ValidatingConfiguration, ValidatingName + " " + ServiceName + " " + PathValidate,
		ValidatingJobName + " " + ServiceName + " " + PathValidateJob, ValidatingNodeImageName + " " + ServiceName + " " + PathValidateNodeImage,
		EvictionsName + " " + ServiceName + " " + PathEvictions,
	}
	if !slices.Equal(found, want) {
		t.Errorf("got  %q\nwant %q", found, want)
	}
	rbac, err := fs.ReadFile(config.Kruise, "kruise/10-rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{MutatingConfiguration, ValidatingConfiguration, SecretName} {
		if !strings.Contains(string(rbac), "resourceNames: ["+name+"]") {
			t.Errorf("the manager must not touch %s", name)
		}
	}
}

// TestWhatIsDeletedNeedsNoWebhook: while no manager runs, the finalizers of an object that is being deleted can be removed, or an orphan or foreground delete hangs.
func TestWhatIsDeletedNeedsNoWebhook(t *testing.T) {
	data, err := fs.ReadFile(config.Kruise, "kruise/20-webhooks.yaml")
	if err != nil {
		t.Fatal(err)
	}
	conditions := map[string]int{}
	for document := range strings.SplitSeq(string(data), "\n---\n") {
		var obj struct {
			Webhooks []admissionv1.ValidatingWebhook
		}
		if err := yaml.Unmarshal([]byte(document), &obj); err != nil {
			t.Fatal(err)
		}
		for _, w := range obj.Webhooks {
			if *w.FailurePolicy != admissionv1.Fail {
				continue
			}
			if len(w.MatchConditions) != 1 {
				t.Errorf("%s has the conditions %v", w.Name, w.MatchConditions)
				continue
			}
			conditions[w.MatchConditions[0].Expression]++
		}
	}
	if len(conditions) != 1 {
		t.Errorf("the conditions are %v, want the same for all webhooks that must answer", conditions)
	}
}

func convert(t *testing.T, body string) (int, string) {
	t.Helper()
	recorder := httptest.NewRecorder()
	newConverter().ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodPost, PathConvert, strings.NewReader(body)))
	return recorder.Code, recorder.Body.String()
}

func TestConverter(t *testing.T) {
	const review = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u1","desiredAPIVersion":"apps.kruise.io/%s","objects":[
		{"apiVersion":"apps.kruise.io/v1alpha1","kind":"DaemonSet","metadata":{"name":"a"},"status":{"daemonSetHash":"x","new":9007199254740993}},
		{"apiVersion":"apps.kruise.io/v1beta1","kind":"DaemonSet","metadata":{"name":"b"}}]}}`
	code, body := convert(t, strings.Replace(review, "%s", "v1beta1", 1))
	want := `{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1","response":{"uid":"u1","convertedObjects":[` +
		`{"apiVersion":"apps.kruise.io/v1beta1","kind":"DaemonSet","metadata":{"name":"a"},"status":{"new":9007199254740993,"updateRevision":"x"}},` +
		`{"apiVersion":"apps.kruise.io/v1beta1","kind":"DaemonSet","metadata":{"name":"b"}}],"result":{"metadata":{},"status":"Success"}}}`
	if code != http.StatusOK || strings.TrimSpace(body) != want {
		t.Errorf("got  %d %s\nwant %s", code, body, want)
	}
	_, body = convert(t, strings.Replace(review, "%s", "v1", 1))
	var answer struct {
		Response struct {
			ConvertedObjects []any
			Result           struct{ Status, Message string }
		}
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		t.Fatal(err)
	}
	r := answer.Response
	if r.Result.Status != "Failure" || len(r.ConvertedObjects) != 0 || !strings.HasPrefix(r.Result.Message, `cannot convert from apiVersion "apps.kruise.io/v1alpha1" to "apps.kruise.io/v1"`) {
		t.Errorf("got %s", body)
	}
	for _, bad := range []string{"", "{}", "[]"} {
		if code, body := convert(t, bad); code != http.StatusBadRequest || !strings.HasPrefix(body, "this is no ConversionReview with a request") {
			t.Errorf("%q: got %d %s", bad, code, body)
		}
	}
}
