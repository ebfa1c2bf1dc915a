// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

func parse(t testing.TB, text string) map[string]any {
	t.Helper()
	var obj map[string]any
	if err := utiljson.Unmarshal([]byte(text), &obj); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return obj
}

// object is a DaemonSet with the given metadata, spec and status.
func object(t testing.TB, version, metadata, spec, status string) map[string]any {
	t.Helper()
	return parse(t, `{"apiVersion":"apps.kruise.io/`+version+`","kind":"DaemonSet","metadata":`+metadata+`,"spec":`+spec+`,"status":`+status+`}`)
}

// convert converts obj and sees to it that obj was not changed.
func convert(t testing.TB, obj map[string]any, version string) map[string]any {
	t.Helper()
	before := runtime.DeepCopyJSON(obj)
	converted, err := Convert(obj, "apps.kruise.io/"+version)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(obj, before) {
		t.Fatalf("conversion changed its input:\nbefore %v\nafter  %v", before, obj)
	}
	return converted
}

func text(t testing.TB, obj any) string {
	t.Helper()
	data, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func expect(t *testing.T, what string, got, want map[string]any) {
	t.Helper()
	if text(t, got) != text(t, want) {
		t.Errorf("%s:\ngot  %s\nwant %s", what, text(t, got), text(t, want))
	}
}

// TestPairs holds objects of v1alpha1 and v1beta1 that mean the same and become each other.
func TestPairs(t *testing.T) {
	const strategy = `{"updateStrategy":{"type":"RollingUpdate","rollingUpdate":`
	for name, e := range map[string]struct{ alphaMeta, alpha, betaMeta, beta string }{
		"nothing special": {`{"name":"a"}`, strategy + `{"rollingUpdateType":"Standard","partition":"30%"}},"newField":[1]}`,
			`{"name":"a"}`, strategy + `{"rollingUpdateType":"Standard","partition":"30%"}},"newField":[1]}`},
		"surging": {`{"name":"a"}`, strategy + `{"rollingUpdateType":"Surging"}}}`,
			`{"annotations":{"everynode.dev/v1alpha1-surging":"{\"maxSurge\":1,\"maxUnavailable\":0,\"filled\":[\"maxSurge\",\"maxUnavailable\"]}"},"name":"a"}`,
			strategy + `{"rollingUpdateType":"Standard","maxSurge":1,"maxUnavailable":0}}}`},
		"surging with a budget": {`{"annotations":{"x":"y"}}`, strategy + `{"rollingUpdateType":"Surging","maxSurge":"25%","maxUnavailable":0}}}`,
			`{"annotations":{"everynode.dev/v1alpha1-surging":"{\"maxSurge\":\"25%\",\"maxUnavailable\":0}","x":"y"}}`,
			strategy + `{"rollingUpdateType":"Standard","maxSurge":"25%","maxUnavailable":0}}}`},
		"surging with an impossible budget": {`{}`, strategy + `{"rollingUpdateType":"Surging","maxSurge":0,"maxUnavailable":3}}}`,
			`{"annotations":{"everynode.dev/v1alpha1-surging":"{\"maxSurge\":0,\"maxUnavailable\":3}"}}`,
			strategy + `{"rollingUpdateType":"Standard","maxSurge":0,"maxUnavailable":3}}}`},
		"progressive": {`{"annotations":{"daemonset.kruise.io/progressive-create-pod":"true"}}`, `{}`,
			`{}`, `{"scaleStrategy":{"partitionedScaling":true}}`},
		"expressly not progressive": {`{"annotations":{"daemonset.kruise.io/progressive-create-pod":"false"}}`, `{}`,
			`{"annotations":{"daemonset.kruise.io/progressive-create-pod":"false"}}`, `{}`},
		"expressly not progressive, in v1beta1": {
			`{"annotations":{"everynode.dev/v1beta1-scaling":"{\"scaleStrategy\":{\"partitionedScaling\":false}}"}}`, `{}`,
			`{}`, `{"scaleStrategy":{"partitionedScaling":false}}`},
		"more in the field than an annotation can say": {
			`{"annotations":{"daemonset.kruise.io/progressive-create-pod":"true","everynode.dev/v1beta1-scaling":"{\"scaleStrategy\":{\"newField\":9007199254740993,\"partitionedScaling\":true}}"}}`, `{}`,
			`{}`, `{"scaleStrategy":{"newField":9007199254740993,"partitionedScaling":true}}`},
		"the annotation in v1beta1": {
			`{"annotations":{"daemonset.kruise.io/progressive-create-pod":"true","everynode.dev/v1beta1-scaling":"{\"annotation\":\"true\"}"}}`, `{}`,
			`{"annotations":{"daemonset.kruise.io/progressive-create-pod":"true"}}`, `{}`},
		"the annotation in v1beta1, and not the field": {
			`{"annotations":{"everynode.dev/v1beta1-scaling":"{\"scaleStrategy\":{\"partitionedScaling\":false},\"annotation\":\"true\"}"}}`, `{}`,
			`{"annotations":{"daemonset.kruise.io/progressive-create-pod":"true"}}`, `{"scaleStrategy":{"partitionedScaling":false}}`},
	} {
		t.Run(name, func(t *testing.T) {
			alpha := object(t, "v1alpha1", e.alphaMeta, e.alpha, `{"numberReady":3,"daemonSetHash":"7f9c"}`)
			beta := object(t, "v1beta1", e.betaMeta, e.beta, `{"numberReady":3,"updateRevision":"7f9c"}`)
			up, down := convert(t, alpha, "v1beta1"), convert(t, beta, "v1alpha1")
			expect(t, "up", up, beta)
			expect(t, "down", down, alpha)
		})
	}
}

// TestEdits shows that an edit in one version is never undone by what was kept for the other.
func TestEdits(t *testing.T) {
	surging := convert(t, object(t, "v1alpha1", `{}`, `{"updateStrategy":{"rollingUpdate":{"rollingUpdateType":"Surging"}}}`, `{}`), "v1beta1")
	surging["spec"].(map[string]any)["updateStrategy"].(map[string]any)["rollingUpdate"].(map[string]any)["maxSurge"] = int64(2)
	expect(t, "maxSurge changed in v1beta1", convert(t, surging, "v1alpha1"), object(t, "v1alpha1", `{}`,
		`{"updateStrategy":{"rollingUpdate":{"rollingUpdateType":"Standard","maxSurge":2,"maxUnavailable":0}}}`, `{}`))

	progressive := convert(t, object(t, "v1beta1", `{}`, `{"scaleStrategy":{"partitionedScaling":true,"newField":1}}`, `{}`), "v1alpha1")
	delete(progressive["metadata"].(map[string]any)["annotations"].(map[string]any), "daemonset.kruise.io/progressive-create-pod")
	expect(t, "turned off in v1alpha1", convert(t, progressive, "v1beta1"), object(t, "v1beta1", `{}`, `{"scaleStrategy":{"newField":1}}`, `{}`))

	off := convert(t, object(t, "v1beta1", `{}`, `{"scaleStrategy":{"partitionedScaling":false}}`, `{}`), "v1alpha1")
	off["metadata"].(map[string]any)["annotations"].(map[string]any)["daemonset.kruise.io/progressive-create-pod"] = "true"
	expect(t, "turned on in v1alpha1", convert(t, off, "v1beta1"), object(t, "v1beta1", `{}`, `{"scaleStrategy":{"partitionedScaling":true}}`, `{}`))

	both := convert(t, object(t, "v1alpha1", `{"annotations":{"daemonset.kruise.io/progressive-create-pod":"true"}}`, `{}`, `{}`), "v1beta1")
	both["spec"].(map[string]any)["scaleStrategy"] = map[string]any{"partitionedScaling": false}
	if down := text(t, convert(t, both, "v1alpha1")); strings.Contains(down, `"daemonset.kruise.io/progressive-create-pod"`) {
		t.Errorf("turned off in v1beta1, but v1alpha1 still shows it: %s", down)
	}
}

// TestKeptByNobody shows that nothing gets into the specification through the annotation that could not get there by itself.
func TestKeptByNobody(t *testing.T) {
	for _, kept := range []string{`{"scaleStrategy":"x"}`, `{"scaleStrategy":[]}`, `{"scaleStrategy":{"partitionedScaling":"yes","a":1}}`, `[]`, `{`, ``, `{"annotation":3}`} {
		metadata := `{"annotations":{"everynode.dev/v1beta1-scaling":` + text(t, kept) + `}}`
		obj := object(t, "v1alpha1", metadata, `{}`, `{}`)
		if spec := convert(t, obj, "v1beta1")["spec"].(map[string]any); len(spec) != 0 {
			t.Errorf("%s becomes the specification %v", kept, spec)
		}
		expect(t, "in v1beta1, "+kept, convert(t, object(t, "v1beta1", metadata, `{}`, `{}`), "v1alpha1"), object(t, "v1alpha1", `{}`, `{}`, `{}`))
	}
}

func TestConvertRefuses(t *testing.T) {
	for _, e := range []struct{ obj, to, want string }{
		{`{"apiVersion":"apps.kruise.io/v1alpha1","kind":"CloneSet"}`, "apps.kruise.io/v1beta1", `cannot convert an object of kind "CloneSet": only DaemonSet of apps.kruise.io can be converted`},
		{`{"apiVersion":"apps.kruise.io/v1","kind":"DaemonSet"}`, "apps.kruise.io/v1beta1", `cannot convert from apiVersion "apps.kruise.io/v1" to "apps.kruise.io/v1beta1": known are apps.kruise.io/v1alpha1 and apps.kruise.io/v1beta1`},
		{`{"apiVersion":"apps/v1","kind":"DaemonSet"}`, "apps/v1", `cannot convert from apiVersion "apps/v1" to "apps/v1": known are apps.kruise.io/v1alpha1 and apps.kruise.io/v1beta1`},
	} {
		if _, err := Convert(parse(t, e.obj), e.to); err == nil || err.Error() != e.want {
			t.Errorf("got %v, want %s", err, e.want)
		}
	}
}

// choices is a source of chance that is made of bytes: each is one decision, so whoever changes one changes one part of what is made of them. What
// comes behind the last is always the same.
type choices struct {
	data []byte
	rest *rand.PCG
}

// Uint64 implements rand.Source.
func (c *choices) Uint64() uint64 {
	if len(c.data) == 0 {
		return c.rest.Uint64()
	}
	first := c.data[0]
	c.data = c.data[1:]
	return uint64(first) * 0x0101010101010101
}

// FuzzRoundTrip makes an object out of bytes and takes it to the other version and back.
func FuzzRoundTrip(f *testing.F) {
	for first := range 256 {
		f.Add([]byte{byte(first), byte(first >> 1), byte(first >> 2)})
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		roundTrip(t, rand.New(&choices{data, rand.NewPCG(1, 1)}))
	})
}

// FuzzConvert converts whatever is JSON. What one version cannot say need not come back from it, but then nothing more is lost on any way:
// there, back and there again is as once there.
func FuzzConvert(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"spec":1,"metadata":[]}`, `{"metadata":{"annotations":{"everynode.dev/v1beta1-scaling":"{"}},"spec":{"scaleStrategy":{"partitionedScaling":true}}}`,
		`{"metadata":{"annotations":{"daemonset.kruise.io/progressive-create-pod":"true"}},"spec":{"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"rollingUpdateType":"Surging","maxSurge":"10%"}}}}`,
	} {
		f.Add(true, seed)
		f.Add(false, seed)
	}
	f.Fuzz(func(t *testing.T, alpha bool, input string) {
		var obj map[string]any
		if utiljson.Unmarshal([]byte(input), &obj) != nil || obj == nil {
			t.Skip("not an object")
		}
		if value, _, _ := unstructured.NestedFieldNoCopy(obj, "spec", "scaleStrategy", "partitionedScaling"); value != nil && value != true && value != false {
			t.Skip("no schema lets that in, and what was kept of it is not believed")
		}
		version, other := "v1beta1", "v1alpha1"
		if alpha {
			version, other = other, version
		}
		obj["apiVersion"], obj["kind"] = "apps.kruise.io/"+version, "DaemonSet"
		there := convert(t, obj, other)
		back := convert(t, there, version)
		if again := convert(t, back, other); !reflect.DeepEqual(withoutNothing(again), withoutNothing(there)) {
			t.Errorf("%s\nas %s:\n%s\nback:\n%s\nand there again:\n%s", input, other, text(t, there), text(t, back), text(t, again))
		}
	})
}

func TestRoundTrip(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		roundTrip(t, random)
	}
}

func roundTrip(t *testing.T, random *rand.Rand) {
	t.Helper()
	version, other := "v1alpha1", "v1beta1"
	if random.IntN(2) == 0 {
		version, other = other, version
	}
	obj := parse(t, text(t, randomObject(random, version)))
	there := parse(t, text(t, convert(t, obj, other)))
	if !reflect.DeepEqual(withoutNothing(convert(t, there, version)), withoutNothing(obj)) {
		t.Fatalf("an object of %s:\n%s\nas %s:\n%s\nand back:\n%s", version, text(t, obj), other, text(t, there), text(t, convert(t, there, version)))
	}
	if again := convert(t, obj, version); !reflect.DeepEqual(again, obj) {
		t.Fatalf("a conversion to its own version changed %v to %v", obj, again)
	}
}

// withoutNothing removes empty annotations and metadata, and fields that are null, which the API server does not know from none.
func withoutNothing(obj map[string]any) map[string]any {
	obj = runtime.DeepCopyJSON(obj)
	withoutNull(obj)
	if metadata, ok := obj["metadata"].(map[string]any); ok {
		if annotations, ok := metadata["annotations"].(map[string]any); ok && len(annotations) == 0 {
			delete(metadata, "annotations")
		}
		if len(metadata) == 0 {
			delete(obj, "metadata")
		}
	}
	return obj
}

func withoutNull(value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, field := range v {
			if field == nil {
				delete(v, key)
			} else {
				withoutNull(field)
			}
		}
	case []any:
		for _, item := range v {
			withoutNull(item)
		}
	}
}

// randomObject is a DaemonSet with whatever its version allows in the places that conversion looks at, and some more.
func randomObject(random *rand.Rand, version string) map[string]any {
	pick := func(from map[string]any, key string, values ...any) {
		if i := random.IntN(len(values) + 1); i > 0 {
			from[key] = values[i-1]
		}
	}
	budget := []any{0, 1, 2, "0%", "30%", "x"}
	types := []any{"Standard", "InPlaceIfPossible", "", "Other"}
	annotations, rolling := map[string]any{}, map[string]any{}
	spec, status := map[string]any{}, map[string]any{}
	if version == "v1alpha1" {
		types = append(types, "Surging", "Surging", "Surging")
		pick(status, "daemonSetHash", "7f9c", "")
	} else {
		pick(status, "updateRevision", "7f9c", "")
		pick(spec, "scaleStrategy", map[string]any{"partitionedScaling": true}, map[string]any{"partitionedScaling": false},
			map[string]any{}, map[string]any{"newField": 9007199254740993}, map[string]any{"newField": 1.5, "partitionedScaling": true})
	}
	pick(rolling, "rollingUpdateType", types...)
	pick(rolling, "maxSurge", budget...)
	pick(rolling, "maxUnavailable", budget...)
	pick(rolling, "partition", budget...)
	pick(annotations, "daemonset.kruise.io/progressive-create-pod", "true", "false", "")
	pick(annotations, "other", "<&>\u2028")
	strategy := map[string]any{}
	pick(strategy, "rollingUpdate", rolling, rolling, rolling, rolling)
	pick(strategy, "type", "RollingUpdate", "OnDelete")
	pick(spec, "updateStrategy", strategy, strategy, strategy, strategy)
	pick(spec, "newField", []any{1, "a"}, map[string]any{"a": 1.5})
	metadata := map[string]any{"name": "a"}
	pick(metadata, "annotations", annotations, annotations, annotations, annotations)
	obj := map[string]any{"apiVersion": "apps.kruise.io/" + version, "kind": "DaemonSet", "spec": spec}
	pick(obj, "metadata", metadata, metadata, metadata, metadata)
	pick(obj, "status", status, status)
	return obj
}
