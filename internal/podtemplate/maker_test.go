// SPDX-License-Identifier: Apache-2.0

package podtemplate_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/internal/placement"
	"everynode.dev/everynode/internal/podtemplate"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func decode(t testing.TB, text []byte) map[string]any {
	t.Helper()
	data, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	var decoded map[string]any
	if err := json.Unmarshal(data, &decoded); err != nil {
		t.Fatal(err)
	}
	return decoded
}

func readTemplate(t testing.TB, name string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".template.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, text)
}

func newMaker(t testing.TB, template map[string]any) *podtemplate.Maker {
	t.Helper()
	spec, _ := template["spec"].(map[string]any)
	rules, err := placement.Compile(spec)
	if err != nil {
		t.Fatal(err)
	}
	return podtemplate.NewMaker(template, rules)
}

func params() podtemplate.Params {
	generation, yes := int64(7), true
	return podtemplate.Params{
		Namespace: "agents", SetName: "agent", PodName: "agent-6pvld9hqgl", Node: "node-1", Hash: "746d58b4cb",
		TemplateGeneration: &generation,
		Owner: metav1.OwnerReference{
			APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: "5f0c1f52-7f0b-4c3e-9b0e-0d4f8e1f7b11",
			Controller: &yes, BlockOwnerDeletion: &yes,
		},
	}
}

func TestPodGoldens(t *testing.T) {
	for _, name := range []string{"minimal", "agent", "newer"} {
		pod := newMaker(t, readTemplate(t, name)).Pod(params())
		got, err := yaml.Marshal(pod.Object)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", name+".pod.yaml")
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
		}
	}
}

// The template is served from a cache that others read, and used for many pods.
func TestPodLeavesTheTemplateAlone(t *testing.T) {
	template := readTemplate(t, "agent")
	before := runtime.DeepCopyJSON(template)
	maker := newMaker(t, template)
	first := maker.Pod(params()).DeepCopy()
	other := params()
	other.Node, other.PodName, other.Hash, other.TemplateGeneration = "node-2", "agent-w67772s25q", "", nil
	maker.Pod(other)
	if !reflect.DeepEqual(template, before) {
		t.Errorf("the template became %v", template)
	}
	if again := maker.Pod(params()); !reflect.DeepEqual(again, first) {
		t.Errorf("made again, the pod is %v, not %v", again, first)
	}
}

func TestPodIsMadeForItsNode(t *testing.T) {
	for _, name := range []string{"minimal", "agent", "newer"} {
		unstructured := newMaker(t, readTemplate(t, name)).Pod(params())
		pod := &corev1.Pod{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(unstructured.Object, pod); err != nil {
			t.Fatal(err)
		}
		if got := placement.TargetNode(pod); got != "node-1" {
			t.Errorf("%s: the pod is made for %q", name, got)
		}
	}
}

func TestLabels(t *testing.T) {
	generation := int64(3)
	cases := []struct {
		name       string
		template   string
		hash       string
		generation *int64
		want       map[string]any
	}{
		{"both", `{metadata: {labels: {a: b}}}`, "h", &generation, map[string]any{"a": "b", "controller-revision-hash": "h", "pod-template-generation": "3"}},
		{"neither", `{metadata: {labels: {a: b}}}`, "", nil, map[string]any{"a": "b"}},
		{"no metadata", `{metadata: null}`, "h", nil, map[string]any{"controller-revision-hash": "h"}},
		{"ours replace the template's", `{metadata: {labels: {controller-revision-hash: x, pod-template-generation: "1"}}}`, "h", &generation, map[string]any{"controller-revision-hash": "h", "pod-template-generation": "3"}},
		{"unknown ones stay as they are", `{metadata: {labels: {controller-revision-hash: x, pod-template-generation: "1"}}}`, "", nil, map[string]any{"controller-revision-hash": "x", "pod-template-generation": "1"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := params()
			p.Hash, p.TemplateGeneration = c.hash, c.generation
			pod := newMaker(t, decode(t, []byte(c.template))).Pod(p)
			metadata := pod.Object["metadata"].(map[string]any)
			if got := metadata["labels"]; !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// Name, namespace, owner and the like in a template mean nothing.
func TestMetadataOfTheTemplate(t *testing.T) {
	template := decode(t, []byte(`{metadata: {name: x, namespace: y, uid: z, generateName: w, ownerReferences: [{name: v}], creationTimestamp: null, annotations: {a: b}, finalizers: [f]}}`))
	metadata := newMaker(t, template).Pod(params()).Object["metadata"].(map[string]any)
	want := map[string]any{
		"name": "agent-6pvld9hqgl", "generateName": "agent-", "namespace": "agents",
		"labels":      map[string]any{"controller-revision-hash": "746d58b4cb", "pod-template-generation": "7"},
		"annotations": map[string]any{"a": "b"}, "finalizers": []any{"f"},
		"ownerReferences": []any{map[string]any{
			"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "5f0c1f52-7f0b-4c3e-9b0e-0d4f8e1f7b11",
			"controller": true, "blockOwnerDeletion": true,
		}},
	}
	if !reflect.DeepEqual(metadata, want) {
		t.Errorf("got  %v\nwant %v", metadata, want)
	}
}

func TestImages(t *testing.T) {
	cases := []struct {
		name, template string
		want           []string
	}{
		{"nothing", `{}`, nil},
		{"in order, each once", `{spec: {containers: [{image: b}, {image: a}, {image: b}], initContainers: [{image: i}, {image: a}]}}`, []string{"i", "a", "b"}},
		{"image volumes", `{spec: {containers: [{image: a}], volumes: [{name: x, image: {reference: v}}, {name: y, emptyDir: {}}]}}`, []string{"a", "v"}},
		{"of wrong types", `{spec: {containers: [7, {image: 7}, null, {image: ""}], initContainers: x, volumes: {}}}`, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := podtemplate.Images(decode(t, []byte(c.template))); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// FuzzPod makes pods of arbitrary templates that placement can read. A deep copy panics on anything that is not JSON.
func FuzzPod(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"metadata":7,"spec":{"affinity":null}}`, `{"metadata":{"labels":[],"finalizers":{}},"spec":{"containers":[{}]}}`,
		`{"spec":{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"x":1}},"y":[]}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		var template map[string]any
		if json.Unmarshal(input, &template) != nil {
			return
		}
		podtemplate.Images(template)
		spec, _ := template["spec"].(map[string]any)
		rules, _ := placement.Compile(spec)
		if rules == nil {
			return
		}
		pod := podtemplate.NewMaker(template, rules).Pod(params()).DeepCopy()
		if pod.GetName() != params().PodName {
			t.Fatalf("the pod is called %q", pod.GetName())
		}
	})
}

func BenchmarkPod(b *testing.B) {
	maker, p := newMaker(b, readTemplate(b, "agent")), params()
	b.ReportAllocs()
	for b.Loop() {
		maker.Pod(p)
	}
}
