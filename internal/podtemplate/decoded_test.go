// SPDX-License-Identifier: Apache-2.0

package podtemplate

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/internal/placement"
)

func templateOf(t testing.TB, name string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".template.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	data, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	var template map[string]any
	if err := kjson.Unmarshal(data, &template); err != nil {
		t.Fatal(err)
	}
	return template
}

func makerOf(template map[string]any) *Maker {
	spec, _ := template["spec"].(map[string]any)
	rules, _ := placement.Compile(spec)
	return NewMaker(template, rules)
}

func paramsOf(node string) Params {
	generation, yes := int64(7), true
	return Params{
		Namespace: "agents", SetName: "agent", PodName: "agent-" + node, Node: node, Hash: "746d58b4cb", TemplateGeneration: &generation,
		Owner: metav1.OwnerReference{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: "5f0c1f52", Controller: &yes, BlockOwnerDeletion: &yes},
	}
}

// agree is an error if a decoded pod is another than the undecoded one, read as the API server reads it.
func agree(m *Maker, p Params, decoded *corev1.Pod) error {
	sent, err := json.Marshal(m.Pod(p).Object)
	if err != nil {
		return err
	}
	want := &corev1.Pod{}
	if err := kjson.Unmarshal(sent, want); err != nil {
		return fmt.Errorf("the API server refuses %s: %w", sent, err)
	}
	encoded, err := decoded.Marshal()
	if err != nil {
		return err
	}
	got := &corev1.Pod{}
	if err := got.Unmarshal(encoded); err != nil {
		return err
	}
	got.TypeMeta = want.TypeMeta
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
	return nil
}

func TestDecoded(t *testing.T) {
	for name, decodes := range map[string]bool{"minimal": true, "agent": true, "newer": false} {
		template := templateOf(t, name)
		before := runtime.DeepCopyJSON(template)
		m := makerOf(template)
		if pod := m.Decoded(paramsOf("n1")); pod != nil {
			t.Errorf("%s: decoded before Decode: %v", name, pod)
		}
		for _, m := range []*Maker{m, m.Decode().WithGates([]string{"example.com/gate"}), m.WithAnnotations(map[string]string{"a": "b"}), m.WithGates([]string{"example.com/gate"}).WithAnnotations(map[string]string{"a": "b"})} {
			none := paramsOf("n1")
			none.Hash, none.TemplateGeneration = "", nil
			for _, p := range []Params{paramsOf("n1"), paramsOf("n2"), none, paramsOf("n1")} {
				pod := m.Decode().Decoded(p)
				if (pod != nil) != decodes {
					t.Fatalf("%s: decoded is %v", name, pod)
				}
				if pod == nil {
					continue
				}
				if err := agree(m, p, pod); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		if !reflect.DeepEqual(template, before) {
			t.Errorf("%s: the template became %v", name, template)
		}
	}
}

// places are all objects and lists in a template, with their paths.
func places(path string, value any, visit func(path string, value any)) {
	visit(path, value)
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			places(path+"/"+key, v[key], visit)
		}
	case []any:
		for i := range v {
			places(fmt.Sprint(path, "/", i), v[i], visit)
		}
	}
}

// free are objects whose keys are names of the user's, where every key is known; in metadata only these are read at all.
func free(path string) bool {
	for _, of := range []string{"labels", "annotations", "matchLabels", "nodeSelector", "limits", "requests", "overhead"} {
		if strings.HasSuffix(path, "/"+of) {
			return true
		}
	}
	return path == "" || strings.HasPrefix(path, "/metadata")
}

// changes are templates that have something, at one place each, that our types or protobuf would lose. A field of the required terms is not among
// them: the pod has others (see pinned).
func changes(template map[string]any) map[string]map[string]any {
	all := map[string]map[string]any{}
	places("", template, func(path string, value any) {
		object, ok := value.(map[string]any)
		if !ok || free(path) || strings.Contains(path, "/nodeSelectorTerms") {
			return
		}
		object["fieldOfALaterVersion"] = map[string]any{"a": int64(1)}
		all[path+": a field of a later version"] = runtime.DeepCopyJSON(template)
		delete(object, "fieldOfALaterVersion")
	})
	spec := template["spec"].(map[string]any)
	for name, value := range map[string]any{"imagePullSecrets": []any{}, "hostAliases": []any{}, "nodeSelector": map[string]any{}} {
		if _, has := spec[name]; has {
			continue
		}
		spec[name] = value
		all[name+": empty"] = runtime.DeepCopyJSON(template)
		delete(spec, name)
	}
	return all
}

// loses is an error if a decoder takes a template of which it loses something.
func loses(decode func(*Maker) *corev1.Pod, templates map[string]map[string]any) error {
	for _, what := range slices.Sorted(maps.Keys(templates)) {
		if decode(makerOf(templates[what])) != nil {
			return fmt.Errorf("%s: it is lost", what)
		}
	}
	return nil
}

// TestNothingIsLost: a template is not decoded that has something anywhere that would be lost. Decoders that look less closely are found out.
func TestNothingIsLost(t *testing.T) {
	templates := changes(templateOf(t, "agent"))
	if len(templates) < 20 {
		t.Fatalf("there are only %d places in the template", len(templates))
	}
	if err := loses((*Maker).decode, templates); err != nil {
		t.Error(err)
	}
	if err := loses(func(m *Maker) *corev1.Pod { return m.Decode().WithGates([]string{"g"}).Decoded(paramsOf("n1")) }, map[string]map[string]any{"a gate": templateOf(t, "agent")}); err != nil {
		t.Error(err) // it is another pod, which was not looked at
	}
	lax := func(m *Maker) *corev1.Pod {
		pod := &corev1.Pod{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(m.Pod(Params{Hash: "any"}).Object, pod); err != nil {
			return nil
		}
		return pod
	}
	for name, mutant := range map[string]func(*Maker) *corev1.Pod{
		"fields of later versions are dropped": func(m *Maker) *corev1.Pod {
			if pod := lax(m); pod != nil && survives(pod) {
				return pod
			}
			return nil
		},
		"what protobuf does not have is dropped": func(m *Maker) *corev1.Pod {
			if pod, ok := strictly(m.Pod(Params{Hash: "any"})); ok {
				return pod
			}
			return nil
		},
	} {
		if loses(mutant, templates) == nil {
			t.Errorf("it is not noticed that %s", name)
		}
	}
}

// What cannot be decoded is left to the API server to refuse.
func TestDecodedOfWrongTypes(t *testing.T) {
	for _, text := range []string{
		`{"metadata":{"labels":{"a":7}},"spec":{"containers":[]}}`, `{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":7}]}}`,
		`{"metadata":{"labels":{"a":"b"}},"spec":{"terminationGracePeriodSeconds":"soon"}}`, `{"spec":{"affinity":{"podAffinity":7}}}`,
	} {
		var template map[string]any
		if err := kjson.Unmarshal([]byte(text), &template); err != nil {
			t.Fatal(err)
		}
		if pod := makerOf(template).Decode().Decoded(paramsOf("n1")); pod != nil {
			t.Errorf("%s was decoded: %v", text, pod)
		}
	}
}

// FuzzDecoded: whatever is decoded is the same pod.
func FuzzDecoded(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"metadata":{"labels":{"a":null}},"spec":{"containers":[{"name":"a","resources":{"limits":{"cpu":"0.5","memory":"1.5Gi"}}}]}}`,
		`{"spec":{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"x":1}},"y":[]}}}`, `{"spec":{"hostNetwork":false,"priority":0}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		var template map[string]any
		if kjson.Unmarshal(input, &template) != nil {
			return
		}
		spec, _ := template["spec"].(map[string]any)
		if rules, _ := placement.Compile(spec); rules == nil {
			return
		}
		m := makerOf(template).Decode()
		if pod := m.Decoded(paramsOf("n1")); pod != nil {
			if err := agree(m, paramsOf("n1"), pod); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	m, p := makerOf(templateOf(b, "agent")).Decode(), paramsOf("n1")
	b.Run("undecoded", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := json.Marshal(m.Pod(p).Object); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decoded", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := m.Decoded(p).Marshal(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
