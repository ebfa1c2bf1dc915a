// SPDX-License-Identifier: Apache-2.0

package base_test

import (
	"encoding/json"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/base"
)

const replacing = "everynode.dev/max-replacing"

// setWith is a set with a selector and labels of its template, and annotations.
func setWith(selector, template any, annotations map[string]any) map[string]any {
	return map[string]any{
		"metadata": map[string]any{"annotations": annotations},
		"spec": map[string]any{
			"selector": selector,
			"template": map[string]any{"metadata": map[string]any{"labels": template}, "spec": map[string]any{}},
		},
	}
}

func fatal(p dialect.Problem) bool { return p.Fatal }

// told is whether there is a problem that names a key.
func told(problems []dialect.Problem, key string) bool {
	return slices.ContainsFunc(problems, func(p dialect.Problem) bool { return strings.HasPrefix(p.Message, "Annotation "+key+" ") })
}

// number is what a text says, without a percent sign; -1 if it says no number.
func number(text string) *big.Int {
	n, ok := new(big.Int).SetString(strings.TrimSuffix(text, "%"), 10)
	if !ok {
		return big.NewInt(-1)
	}
	return n
}

// FuzzAnnotations: no annotation keeps a set from being worked on, each is within its bounds afterwards, and says what is written unless
// somebody is told that it does not.
func FuzzAnnotations(f *testing.F) {
	f.Add("1", "1", "300", "0", "true")
	f.Add("100%", "07", "+5", "-0", "false")
	f.Add("0%", "2147483648", "-1", "101%", "True")
	f.Add("%", "", " 1", "1%%", "\x00")
	f.Add("٣", "1e3", "0x10", "1_000", "true ")
	f.Fuzz(func(t *testing.T, replace, parallel, seconds, ready, waits string) {
		r := &base.Reader{}
		same := map[string]any{"a": "b"}
		w := r.DaemonSet(setWith(map[string]any{"matchLabels": same}, same, map[string]any{
			replacing: replace, parallelism: parallel, timeout: seconds, least: ready, wait: waits,
		}))
		problems, p, q := r.Problems(), w.PullAhead, w.Set.MaxReplacing
		if slices.ContainsFunc(problems, fatal) {
			t.Errorf("the set is not worked on: %v", problems)
		}
		if q == nil || q.Value < 1 || q.Percent && q.Value > 100 {
			t.Fatalf("%s %q is %+v", replacing, replace, q)
		}
		if p.Parallelism < 1 || p.Timeout < time.Second || p.MinUpdatedReady.Value < 0 || p.MinUpdatedReady.Percent && p.MinUpdatedReady.Value > 100 ||
			p.Wait && p.MinUpdatedReady.Value > 0 {
			t.Errorf("images are pulled ahead with %+v", p)
		}
		for _, e := range []struct {
			key, text string
			is        int64
		}{
			{replacing, replace, int64(q.Value)}, {parallelism, parallel, int64(p.Parallelism)},
			{timeout, seconds, int64(p.Timeout / time.Second)}, {least, ready, int64(p.MinUpdatedReady.Value)},
		} {
			if !told(problems, e.key) && number(e.text).Cmp(big.NewInt(e.is)) != 0 {
				t.Errorf("%s is %q, which counts as %d, and nobody is told", e.key, e.text, e.is)
			}
		}
		if !told(problems, wait) && waits != "true" && waits != "false" || p.Wait != (waits == "true") {
			t.Errorf("%s is %q, which counts as %t, told %v", wait, waits, p.Wait, problems)
		}
	})
}

// FuzzSelector: a selector that is worked with selects what it says, read here in the dullest way, and the pods of the set among it.
func FuzzSelector(f *testing.F) {
	f.Add(`{"matchLabels":{"a":"b"}}`, `{"a":"b"}`, `{"a":"c"}`)
	f.Add(`{"matchExpressions":[{"key":"a","operator":"In","values":["b","c"]},{"key":"d","operator":"DoesNotExist"}]}`, `{"a":"b"}`, `{"a":"c","d":""}`)
	f.Add(`{"matchExpressions":[{"key":"a","operator":"NotIn","values":["b"]}]}`, `{}`, `{"a":"b"}`)
	f.Add(`{"matchExpressions":[{"key":"a","operator":"Exists","values":["b"]},null]}`, `{"a":""}`, `null`)
	f.Add(`{"matchLabels":{"":""},"matchExpressions":{}}`, `[]`, `{"a":1}`)
	f.Fuzz(func(t *testing.T, selector, template, other string) {
		var s, of any
		var others map[string]string
		if json.Unmarshal([]byte(selector), &s) != nil || json.Unmarshal([]byte(template), &of) != nil || json.Unmarshal([]byte(other), &others) != nil {
			t.Skip("not JSON, or no labels")
		}
		r := &base.Reader{}
		w := r.DaemonSet(setWith(s, of, nil))
		if slices.ContainsFunc(r.Problems(), fatal) {
			return
		}
		var own map[string]string
		if err := json.Unmarshal([]byte(template), &own); err != nil || !w.Selector.Matches(labels.Set(own)) || w.Selector.Empty() {
			t.Errorf("the set would not know its own pods by %s: %s, %v", selector, template, err)
		}
		if got, want := w.Selector.Matches(labels.Set(others)), selects(s, others); got != want {
			t.Errorf("%s selects %s: %t, want %t", selector, other, got, want)
		}
	})
}

// selects is whether a selector, as it was sent, selects something with these labels.
func selects(selector any, in map[string]string) bool {
	fields, _ := selector.(map[string]any)
	equal, _ := fields["matchLabels"].(map[string]any)
	for key, value := range equal {
		if is, ok := in[key]; value != is || !ok {
			return false
		}
	}
	expressions, _ := fields["matchExpressions"].([]any)
	for _, e := range expressions {
		expression, _ := e.(map[string]any)
		key, _ := expression["key"].(string)
		values, _ := expression["values"].([]any)
		is, there := in[key]
		listed := there && slices.Contains(values, any(is))
		selected := map[any]bool{"In": listed, "NotIn": !listed, "Exists": there, "DoesNotExist": !there}[expression["operator"]]
		if !selected {
			return false
		}
	}
	return true
}
