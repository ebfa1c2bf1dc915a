// SPDX-License-Identifier: Apache-2.0

package analyses

import (
	"context"
	"math"
	"strings"
	"testing"
)

func one(v float64) Result { return Result{Samples: []Sample{{Value: v}}} }

func samples(all ...float64) Result {
	r := Result{}
	for _, v := range all {
		r.Samples = append(r.Samples, Sample{map[string]string{"zone": "a"}, v})
	}
	return r
}

func answered(v any) Result { return Result{Value: v, Webhook: true} }

// An expression passes or fails only if it can be computed from the answer; everything else is an error, which is Unknown.
func TestExpressions(t *testing.T) {
	for _, test := range []struct {
		text   string
		result Result
		want   string // true, false, or a part of the error
	}{
		{"result < 0.01", one(0.001), "true"},
		{"result < 0.01", one(0.3), "false"},
		{"result < 1", one(0.3), "true"},
		{"result == 0", one(0), "true"},
		{"result <= 5 && result >= 1", one(3), "true"},
		{"result < 0.01", samples(), "no data"},
		{"true", samples(), "no data"},
		{"results.size() == 0", samples(), "no data"},
		{"result < 0.01", one(math.NaN()), "NaN"},
		{"!(result > 0.01)", one(math.NaN()), "NaN"},
		{"result < 0.01", one(math.Inf(-1)), "infinite"},
		{"result > 0.01", one(math.Inf(1)), "infinite"},
		{"results.all(r, r.value < 1)", samples(0, math.Inf(-1)), "infinite"},
		{"!results.exists(r, r.value > 1)", samples(0, math.NaN()), "NaN"},
		{"result < 0.01", one(math.Inf(1)), "infinite"},
		{"result < 0.01", samples(0, 0), "returned 2 samples"},
		{"results.all(r, r.value < 0.01)", samples(0, 0.001), "true"},
		{"results.all(r, r.value < 0.01)", samples(0, 0.5), "false"},
		{"results.all(r, r.labels.zone == 'a')", samples(0, 0.5), "true"},
		{"result < 0.01", answered(0.001), "true"},
		{"result", answered(true), "true"},
		{"result", answered(false), "false"},
		{"result", answered("true"), "neither true nor false"},
		{"result < 0.01", answered("0.001"), "cannot be computed"},
		{"result < 0.01", answered(nil), "no result"},
		{"true", answered(nil), "no result"},
		{"result.errors < 1", answered(map[string]any{"errors": 0.0}), "true"},
		{"result.errors < 1", answered(map[string]any{}), "cannot be computed"},
		{"results.all(r, r.value < 0.01)", answered(0.001), "cannot be computed"},
		{"result.all(a, result.all(b, result.all(c, a + b + c >= 0.0)))", answered(numbers(200)), "cannot be computed"},
	} {
		e, err := compile(test.text)
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		passes, err := e.passes(t.Context(), &test.result)
		got := map[bool]string{true: "true", false: "false"}[passes]
		if err != nil {
			if passes {
				t.Errorf("%s on %s passes with the error %v", test.text, test.result.text(), err)
			}
			got = err.Error()
		}
		if got != test.want && (err == nil || !strings.Contains(got, test.want)) {
			t.Errorf("%s on %s: %s, want %s", test.text, test.result.text(), got, test.want)
		}
	}
}

func numbers(n int) []any {
	all := make([]any, n)
	for i := range all {
		all[i] = float64(i)
	}
	return all
}

// An expression that is not one is refused, with its place.
func TestExpressionsThatDoNotCompile(t *testing.T) {
	for text, want := range map[string]string{
		"result <":                            "at character",
		"outcome < 0.01":                      "undeclared reference to 'outcome'",
		"1 + 1":                               "is a int: it must be true or false",
		"'a'":                                 "must be true or false",
		"result < 'a' + 1":                    "at character",
		strings.Repeat("(", 600) + "true":     "cannot be compiled",
		"result.f(" + strings.Repeat("!", 99): "cannot be compiled",
	} {
		if _, err := compile(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// An expression whose types are nested deeply is refused before they are checked, which would take many seconds.
func TestDeepExpressionsAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"lists":  strings.Repeat("[", 200) + strings.Repeat("]", 200) + " == []",
		"maps":   strings.Repeat("{1:", 200) + "1" + strings.Repeat("}", 200) + " == {}",
		"types":  strings.Repeat("type(", 150) + "1" + strings.Repeat(")", 150) + " == type",
		"macros": "result" + strings.Repeat(".map(a,[a])", 90) + " == []",
		"both":   "[1]" + strings.Repeat(".map(a,{1:[[[[[[a]]]]]]})", 39) + " == []",
	} {
		if _, err := compile(text); err == nil || !strings.Contains(err.Error(), "at most 16 are allowed") {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	for _, text := range []string{
		"results.filter(r, r.labels.zone in ['a', 'b']).map(r, r.value).all(v, v < 1.0)",
		"result" + strings.Repeat(" in [1] || result", 15) + " in [2]",
	} {
		if _, err := compile(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// The context of a measurement ends an expression that is still being computed.
func TestAnExpressionEndsWithItsTime(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e, err := compile("result.all(a, result.all(b, a + b >= 0.0))")
	if err != nil {
		t.Fatal(err)
	}
	r := answered(numbers(100))
	if passes, err := e.passes(ctx, &r); passes || err == nil {
		t.Errorf("passes %t, error %v", passes, err)
	}
}

func FuzzExpression(f *testing.F) {
	for _, text := range []string{"result < 0.01", "results.all(r, r.value < 1)", "result", "result.a[0] == 'x' || true", "(((", "\x00"} {
		f.Add(text, 0.5)
	}
	f.Fuzz(func(t *testing.T, text string, value float64) {
		e, err := compile(text)
		if err != nil {
			return
		}
		for _, r := range []Result{one(value), samples(), samples(value, 1), answered(nil), answered("a")} {
			passes, err := e.passes(t.Context(), &r)
			if passes && (err != nil || len(r.Samples) == 0 && !r.Webhook || r.Webhook && r.Value == nil) {
				t.Errorf("%q passes on %+v, error %v", text, r, err)
			}
		}
	})
}
