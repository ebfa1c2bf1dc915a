// SPDX-License-Identifier: Apache-2.0

package revision_test

import (
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/json"

	"everynode.dev/everynode/internal/revision"
)

// parse decodes a template written in a test.
func parse(t testing.TB, text string) map[string]any {
	t.Helper()
	var template map[string]any
	if err := json.Unmarshal([]byte(text), &template); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return template
}

func TestEqual(t *testing.T) {
	cases := []struct {
		name, a, b string
		want       bool
	}{
		{"the same", `{"spec":{"nodeName":"a"}}`, `{"spec":{"nodeName":"a"}}`, true},
		{"another value", `{"spec":{"nodeName":"a"}}`, `{"spec":{"nodeName":"b"}}`, false},
		{"nothing in both", `{}`, `{}`, true},
		{"null is absent", `{"spec":{"nodeName":null}}`, `{"spec":{}}`, true},
		{"null at the top", `{"metadata":null,"spec":{}}`, `{"spec":{}}`, true},
		{"creationTimestamp null", `{"metadata":{"creationTimestamp":null,"labels":{"a":"b"}}}`, `{"metadata":{"labels":{"a":"b"}}}`, true},
		{"creationTimestamp set", `{"metadata":{"creationTimestamp":"2020-01-01T00:00:00Z"}}`, `{"metadata":{}}`, false},
		{"the directive of a patch", `{"$patch":"replace","spec":{}}`, `{"spec":{}}`, true},
		{"empty metadata", `{"metadata":{}}`, `{}`, true},
		{"empty labels", `{"metadata":{"labels":{},"annotations":{}}}`, `{}`, true},
		{"empty resources", `{"spec":{"containers":[{"name":"a","resources":{}}]}}`, `{"spec":{"containers":[{"name":"a"}]}}`, true},
		{"empty limits", `{"spec":{"containers":[{"name":"a","resources":{"limits":{}}}]}}`, `{"spec":{"containers":[{"name":"a"}]}}`, true},
		{"empty list", `{"spec":{"tolerations":[]}}`, `{"spec":{}}`, true},
		{"explicit false", `{"spec":{"hostNetwork":false}}`, `{"spec":{}}`, true},
		{"explicit false that means something", `{"spec":{"enableServiceLinks":false}}`, `{"spec":{}}`, false},
		{"emptyDir says something", `{"spec":{"volumes":[{"name":"a","emptyDir":{}}]}}`, `{"spec":{"volumes":[{"name":"a"}]}}`, false},
		{"an empty label selector selects", `{"spec":{"topologySpreadConstraints":[{"labelSelector":{}}]}}`, `{"spec":{"topologySpreadConstraints":[{}]}}`, false},
		{"quantities by value", `{"spec":{"containers":[{"resources":{"limits":{"cpu":"1000m"}}}]}}`, `{"spec":{"containers":[{"resources":{"limits":{"cpu":1}}}]}}`, true},
		{"order of lists", `{"spec":{"containers":[{"name":"a"},{"name":"b"}]}}`, `{"spec":{"containers":[{"name":"b"},{"name":"a"}]}}`, false},
		{"length of lists", `{"spec":{"containers":[{"name":"a"}]}}`, `{"spec":{"containers":[{"name":"a"},{"name":"b"}]}}`, false},
		{"a field nobody knows", `{"spec":{"teleport":{"to":"a"}}}`, `{"spec":{"teleport":{"to":"b"}}}`, false},
		{"a field only one has", `{"spec":{"teleport":{}}}`, `{"spec":{}}`, false},
		{"null in a field nobody knows", `{"spec":{"teleport":{"to":null}}}`, `{"spec":{"teleport":{}}}`, true},
		{"a type nobody can read, same", `{"spec":{"containers":7,"nodeName":null}}`, `{"spec":{"containers":7}}`, true},
		{"a type nobody can read, other", `{"spec":{"containers":7}}`, `{"spec":{"containers":8}}`, false},
		{"kinds of values", `{"x":1}`, `{"x":"1"}`, false},
		{"true and false", `{"x":true}`, `{"x":false}`, false},
		{"map and list", `{"x":{}}`, `{"x":[]}`, false},
		{"numbers by value", `{"x":3.0}`, `{"x":3}`, true},
		{"numbers differ", `{"x":3.5}`, `{"x":3}`, false},
		{"large integers differ", `{"x":9007199254740993}`, `{"x":9007199254740995}`, false},
		{"an integer that went through float64", `{"x":9007199254740993}`, `{"x":9007199254740992}`, true},
		{"the highest integer that went through float64", `{"x":9223372036854775807}`, `{"x":9223372036854775808}`, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			a, b := parse(t, c.a), parse(t, c.b)
			if got := revision.Equal(a, b); got != c.want {
				t.Errorf("Equal(%s, %s) = %v", c.a, c.b, got)
			}
			if got := revision.Equal(b, a); got != c.want {
				t.Errorf("Equal(%s, %s) = %v", c.b, c.a, got)
			}
		})
	}
}

func TestNoTemplateEqualsNothing(t *testing.T) {
	if revision.Equal(nil, nil) || revision.Equal(nil, map[string]any{}) {
		t.Error("a template that could not be decoded equals another")
	}
}

func TestEqualLeavesItsArgumentsAlone(t *testing.T) {
	const text = `{"$patch":"replace","metadata":{"creationTimestamp":null},"spec":{"hostNetwork":false,"x":{"y":null}}}`
	template := parse(t, text)
	revision.Equal(template, template)
	if data, _ := json.Marshal(template); string(data) != text {
		t.Errorf("the template became %s", data)
	}
}

func TestDecodeErrors(t *testing.T) {
	for text, want := range map[string]string{
		``:                           "decoding revision data",
		`nonsense`:                   "decoding revision data",
		`[]`:                         "decoding revision data",
		`{}`:                         "no object at spec.template",
		`null`:                       "no object at spec.template",
		`{"spec":{}}`:                "no object at spec.template",
		`{"spec":{"template":null}}`: "no object at spec.template",
		`{"spec":{"template":1}}`:    "decoding revision data",
	} {
		template, err := revision.Decode([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Decode(%q) = %v, %v; want an error with %q", text, template, err, want)
		}
	}
}

func TestUnreadableTemplates(t *testing.T) {
	template := parse(t, `{"spec":{"containers":7}}`)
	if data, err := revision.Data(template); err == nil {
		t.Errorf("Data = %s, want an error", data)
	}
	if hash, err := revision.Hash(template, nil); err == nil {
		t.Errorf("Hash = %s, want an error", hash)
	}
}

// The highest integer, which people write for "for ever", has no float64, and OpenKruise writes float64.
func TestHighestIntegerIsFoundAgain(t *testing.T) {
	template := parse(t, `{"spec":{"tolerations":[{"key":"a","operator":"Exists","tolerationSeconds":9223372036854775807}]}}`)
	for _, written := range []string{"9223372036854775807", "9223372036854775808"} {
		decoded, err := revision.Decode([]byte(
			`{"spec":{"template":{"spec":{"tolerations":[{"key":"a","operator":"Exists","tolerationSeconds":` + written + `}]}}}}`))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(template, decoded) || !revision.Equal(template, decoded) {
			t.Errorf("%v does not equal its revision %v", template, decoded)
		}
	}
}

func TestHashIgnoresThePatchDirective(t *testing.T) {
	template := readTemplate(t, "agent")
	plain, err := revision.Hash(template, nil)
	if err != nil {
		t.Fatal(err)
	}
	template["$patch"] = "replace"
	if marked, err := revision.Hash(template, nil); err != nil || marked != plain {
		t.Errorf("Hash = %s, %v; want %s", marked, err, plain)
	}
}

func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"metadata":null}`, `{"spec":{"containers":[null]}}`, `{"spec":{"containers":[{"image":"a","x":[{}]}]}}`,
		`{"spec":{"tolerations":[{"tolerationSeconds":9223372036854775807}]}}`, `{"$patch":{"$patch":1}}`,
		`{"metadata":{"labels":{"a":null}},"spec":{"volumes":[{"emptyDir":{"sizeLimit":"1Gi"}}]}}`,
		`{"spec":{"securityContext":{"Sysctls":[]},"NodeName":"a","nodename":"b"}}`,
		`{"spec":{"containers":[{"livenessProbe":{"httpGet":{"port":"x"}},"resources":{"limits":{"cpu":1e3}}}]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		var template map[string]any
		if json.Unmarshal(input, &template) != nil || template == nil {
			return
		}
		if !revision.Equal(template, template) {
			t.Fatal("the template does not equal itself")
		}
		_, hashErr := revision.Hash(template, nil)
		data, err := revision.Data(template)
		if (err == nil) != (hashErr == nil) {
			t.Fatalf("Data: %v, but Hash: %v", err, hashErr)
		}
		if err == nil {
			checkRoundTrip(t, template, data)
		}
	})
}

// checkRoundTrip checks that a template finds itself again in its revision.
func checkRoundTrip(t *testing.T, template map[string]any, data []byte) {
	decoded, err := revision.Decode(data)
	if err != nil {
		t.Fatalf("decoding %s: %v", data, err)
	}
	if !revision.Equal(template, decoded) {
		t.Fatalf("the template does not equal its own revision %s", data)
	}
	again, err := revision.Data(decoded)
	if err != nil || string(again) != string(data) {
		t.Fatalf("written again: %s, %v; want %s", again, err, data)
	}
}

// FuzzEqual checks Equal, which does not make canonical forms, against revision data, which hold them.
func FuzzEqual(f *testing.F) {
	for _, pair := range [][2]string{
		{`{"spec":{"hostNetwork":false}}`, `{"spec":{}}`},
		{`{"spec":{"containers":[{"name":"","x":1}]}}`, `{"spec":{"containers":[{"x":1.0}]}}`},
		{`{"metadata":{"labels":{"a":""}}}`, `{"metadata":{"labels":{}}}`},
		{`{"metadata":{"labels":{"a":null}}}`, `{"metadata":{"labels":{"a":""}}}`},
		{`{"spec":{"volumes":[{"emptyDir":{}}]}}`, `{"spec":{"volumes":[{"emptyDir":{"sizeLimit":"0"}}]}}`},
		{`{"spec":{"containers":[{"ports":[{"containerPort":0}]}]}}`, `{"spec":{"containers":[{"ports":[null]}]}}`},
		{`{"spec":{"containers":[{"livenessProbe":{"tcpSocket":{"port":0}}}]}}`, `{"spec":{"containers":[{"livenessProbe":{"tcpSocket":{}}}]}}`},
	} {
		f.Add([]byte(pair[0]), []byte(pair[1]))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var a, b map[string]any
		if json.Unmarshal(first, &a) != nil || json.Unmarshal(second, &b) != nil || a == nil || b == nil {
			return
		}
		dataA, errA := revision.Data(a)
		dataB, errB := revision.Data(b)
		if errA != nil || errB != nil {
			return
		}
		checkEqual(t, revision.Equal(a, b), dataA, dataB)
	})
}

// checkEqual checks an answer of Equal against the data of the two templates. Two of its liberties do not show in data,
// so there are two bounds: a list that is always written is null or [], as its template says, and both are nothing; and
// an integer equals what a float64 makes of it.
func checkEqual(t *testing.T, equal bool, a, b []byte) {
	t.Helper()
	if !equal && sameData(t, a, b, false) || equal && !sameData(t, a, b, true) {
		t.Fatalf("Equal is %v for the data\n%s\n%s", equal, a, b)
	}
}

// sameData compares revision data without nulls and, if loosely, without empty lists and with numbers as float64.
func sameData(t *testing.T, a, b []byte, loosely bool) bool {
	return reflect.DeepEqual(pruned(parse(t, string(a)), loosely), pruned(parse(t, string(b)), loosely))
}

func pruned(value any, loosely bool) any {
	switch value := value.(type) {
	case map[string]any:
		for key, member := range value {
			if list, isList := member.([]any); member == nil || loosely && isList && len(list) == 0 {
				delete(value, key)
			} else {
				value[key] = pruned(member, loosely)
			}
		}
	case []any:
		for i := range value {
			value[i] = pruned(value[i], loosely)
		}
	case int64:
		if loosely {
			return float64(value)
		}
	}
	return value
}

func BenchmarkEqual(b *testing.B) {
	template, other := readTemplate(b, "agent"), readTemplate(b, "agent")
	b.ReportAllocs()
	for b.Loop() {
		revision.Equal(template, other)
	}
}
