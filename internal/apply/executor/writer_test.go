// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"everynode.dev/everynode/internal/placement"
	"everynode.dev/everynode/internal/podtemplate"
)

// TestGetSince asks an API server for what it has at hand, and one that is behind for what is stored.
func TestGetSince(t *testing.T) {
	tooLarge := apierrors.NewTimeoutError("Too large resource version: 9, current: 7", 1)
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rv := r.URL.Query().Get("resourceVersion")
		asked = append(asked, rv)
		var answer any = &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "p", ResourceVersion: "9" + rv}}
		w.Header().Set("Content-Type", "application/json")
		switch rv {
		case "9":
			answer = failure(tooLarge)
			w.WriteHeader(http.StatusGatewayTimeout)
		case "8":
			answer = failure(apierrors.NewNotFound(corev1.Resource("pods"), "p"))
			w.WriteHeader(http.StatusNotFound)
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	pods := NewPods(client)
	for _, tt := range []struct {
		rv, want string
		asked    []string
		gone     bool
	}{
		{rv: "7", want: "97", asked: []string{"7"}},
		{rv: "9", want: "9", asked: []string{"9", ""}},
		{rv: "8", asked: []string{"8"}, gone: true},
		{rv: "", want: "9", asked: []string{""}},
	} {
		asked = nil
		pod, err := pods.GetSince(t.Context(), "ns", "p", tt.rv)
		if apierrors.IsNotFound(err) != tt.gone || !tt.gone && (err != nil || pod.ResourceVersion != tt.want) || !slices.Equal(asked, tt.asked) {
			t.Errorf("since %q: got %v, %v and asked for %q; want version %q, asked for %q", tt.rv, pod, err, asked, tt.want, tt.asked)
		}
	}
}

// TestFind asks for a name as a list of one, which tells as of when there is none.
func TestFind(t *testing.T) {
	there := map[string]bool{"p": true}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		list := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, ListMeta: metav1.ListMeta{ResourceVersion: "17"}}
		name, ok := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
		switch {
		case !ok || r.URL.Path != "/api/v1/namespaces/ns/pods" || r.URL.Query().Has("resourceVersion"):
			t.Errorf("asked for %s", r.URL)
		case there[name]:
			list.Items = []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: name}}}
		}
		if err := json.NewEncoder(w).Encode(list); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	pods := NewPods(client)
	for _, name := range []string{"p", "q"} {
		pod, rv, err := pods.Find(t.Context(), "ns", name)
		if err != nil || rv != "17" || (pod != nil) != there[name] || pod != nil && pod.Name != name {
			t.Errorf("%s: found %v at %q, %v", name, pod, rv, err)
		}
	}
	server.Close()
	if pod, _, err := pods.Find(t.Context(), "ns", "p"); err == nil {
		t.Errorf("found %v where nobody answers", pod)
	}
}

// TestCreate: a pod is sent in protobuf if our types have all of its template, and undecoded if not; nothing of either is lost.
func TestCreate(t *testing.T) {
	var kind string
	var sent []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind = r.Header.Get("Content-Type")
		var err error
		if sent, err = io.ReadAll(r.Body); err != nil || r.Method != http.MethodPost || r.URL.Path != "/api/v1/namespaces/ns/pods" || r.URL.RawQuery != "timeout=5s" {
			t.Errorf("%s %s, %v", r.Method, r.URL, err)
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(&corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{UID: "u"}}); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeProtobuf, AcceptContentTypes: runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON}})
	if err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]string{"hostPID": runtime.ContentTypeProtobuf, "aFieldOfTomorrow": runtime.ContentTypeJSON} {
		spec := map[string]any{field: true, "containers": []any{map[string]any{"name": "c", "image": "i"}}}
		rules, err := placement.Compile(spec)
		if err != nil {
			t.Fatal(err)
		}
		maker := podtemplate.NewMaker(map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}, "spec": spec}, rules).Decode()
		p := podtemplate.Params{Namespace: "ns", PodName: "p", Node: "n", Hash: "h"}
		if created, err := create(t.Context(), NewPods(client), maker, p); err != nil || created.UID != "u" || kind != want {
			t.Errorf("%s: sent as %s, got %v, %v", field, kind, created, err)
		}
		if want == runtime.ContentTypeJSON {
			if !strings.Contains(string(sent), `"aFieldOfTomorrow":true`) {
				t.Errorf("sent %s", sent)
			}
			continue
		}
		decoded, _, err := scheme.Codecs.UniversalDeserializer().Decode(sent, nil, nil)
		if pod, ok := decoded.(*corev1.Pod); err != nil || !ok || !pod.Spec.HostPID || pod.Labels["a"] != "b" || pod.Labels["controller-revision-hash"] != "h" || pod.Name != "p" {
			t.Errorf("sent %+v, %v", decoded, err)
		}
	}
}

func failure(err *apierrors.StatusError) *metav1.Status {
	status := err.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	return &status
}
