// SPDX-License-Identifier: Apache-2.0

package install

import (
	"strings"
	"testing"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"

	"everynode.dev/everynode/config"
)

func TestReadKeepsTheOrder(t *testing.T) {
	root := fstest.MapFS{
		"install/10-b.yaml": {Data: []byte("kind: C\nmetadata: {name: c}\n")},
		"install/00-a.yaml": {Data: []byte("# nothing\n---\nkind: A\nmetadata: {name: a}\n---\nkind: B\nmetadata: {name: b}\n---\n")},
		"install/notes.txt": {Data: []byte("not a manifest")},
	}
	objects, err := Read(root)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, obj := range objects {
		names = append(names, obj.GetName())
	}
	if got := strings.Join(names, " "); got != "a b c" {
		t.Errorf("read %q, want a b c", got)
	}
}

func TestReadNamesTheBrokenFile(t *testing.T) {
	_, err := Read(fstest.MapFS{"install/00-a.yaml": {Data: []byte("kind: [")}})
	if err == nil || !strings.Contains(err.Error(), "install/00-a.yaml") {
		t.Errorf("error %v does not name the file", err)
	}
}

func TestShippedAndOwnManifestsCanBeRead(t *testing.T) {
	for name, read := range map[string]func() ([]*unstructured.Unstructured, error){
		"shipped": func() ([]*unstructured.Unstructured, error) { return Read(config.Install) },
		"kruise":  func() ([]*unstructured.Unstructured, error) { return Read(config.Kruise) },
		"agent":   func() ([]*unstructured.Unstructured, error) { return Read(config.Agent) },
		"own":     func() ([]*unstructured.Unstructured, error) { return Read(own) },
	} {
		objects, err := read()
		if err != nil || len(objects) == 0 {
			t.Errorf("%s: %d objects, error %v", name, len(objects), err)
		}
		for _, obj := range objects {
			if obj.GetKind() == "" || obj.GetAPIVersion() == "" || obj.GetName() == "" {
				t.Errorf("%s: an object without kind, version or name: %v", name, obj.Object)
			}
		}
	}
}

func TestHowAWebhookIsReachedIsLeftToTheManager(t *testing.T) {
	resource := schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}
	configuration := func(url string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "metadata": map[string]any{"name": "a"},
			"webhooks": []any{map[string]any{"name": "w", "clientConfig": map[string]any{"url": url}}},
		}}
	}
	for want, client := range map[string]dynamic.Interface{
		unsetURL:  fake.NewSimpleDynamicClient(runtime.NewScheme()),
		"written": fake.NewSimpleDynamicClient(runtime.NewScheme(), configuration("written")),
	} {
		obj := configuration("shipped")
		if err := keepClientConfig(t.Context(), client.Resource(resource), obj); err != nil {
			t.Fatal(err)
		}
		if got := webhooks(obj)[0]["clientConfig"].(map[string]any)["url"]; got != want {
			t.Errorf("the webhook is applied with %q, want %q", got, want)
		}
	}
}

func TestEstablished(t *testing.T) {
	crd := func(status string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{
			"conditions": []any{
				map[string]any{"type": "NamesAccepted", "status": "True"},
				map[string]any{"type": "Established", "status": status},
			},
		}}}
	}
	for status, want := range map[string]bool{"True": true, "False": false} {
		if got := established(crd(status)); got != want {
			t.Errorf("Established %s: %v", status, got)
		}
	}
	if established(&unstructured.Unstructured{Object: map[string]any{}}) {
		t.Error("a definition without a status is established")
	}
}
