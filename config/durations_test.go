// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/config"
)

// The durations that earlier definitions accepted, as the patterns that they had.
var (
	earlierDuration = regexp.MustCompile(`^([0-9]{1,9}(\.[0-9]{1,9})?(ms|s)|[0-9]{1,7}(\.[0-9]{1,9})?m|[0-9]{1,5}(\.[0-9]{1,9})?h)+$`)
	earlierWindow   = regexp.MustCompile(`^([0-9]{1,9}(\.[0-9]{1,9})?s|[0-9]{1,7}(\.[0-9]{1,9})?m|[0-9]{1,5}(\.[0-9]{1,9})?h)+$`)
)

// durations are strings that are durations, and some that are none.
var durations = []string{
	"0s", "0ms", "0h0m0s", "0.0s", "1ms", "999ms", "1s", "0.5s", "4999ms", "5s", "30s", "10m", "1h", "24h", "24h1ms", "168h", "168h0.1s", "744h", "8760h", "1209600s",
	"1h30m0.5s", "1.123456789h", "999999999s999999999s999999999s99s", "99999h99999h99999h99999h99999h", "1m1h", "1s\n", " 1s", "1S",
	"", "s", "1", "1d", "7d", "1w", "soon", "-1s", "+1s", "1 s", "1us", "1µs", "1ns", ".5s", "1.s", "1,5s", "1.1234567890s", "9999999999s", "99999999m", "999999h", "PT1H", "٣s",
}

// TestDurationsOfPolicies: each duration of a policy is judged by a rule with a message that shows what is accepted, and each accepts what earlier definitions did. Only windows
// that are never open, and deadlines that no version can meet, are refused since.
func TestDurationsOfPolicies(t *testing.T) {
	between := func(least, most string) string {
		return " && duration(self) >= duration('" + least + "') && duration(self) <= duration('" + most + "')"
	}
	fields := durationsOf(t)
	for _, want := range []struct {
		path    string
		pattern *regexp.Regexp
		rule    string // what earlier definitions required besides
	}{
		{".analyses[].interval", earlierDuration, between("5s", "24h")},
		{".analyses[].unknownDeadline", earlierDuration, between("1s", "168h")},
		{".failure.nodeDeadline", earlierDuration, " && duration(self) >= duration('1s')"},
		{".failure.waveDeadline", earlierDuration, " && duration(self) >= duration('1s')"},
		{".pace.minTimeBetween", earlierDuration, ""},
		{".unreachableAfter", earlierDuration, ""},
		{".waves[].after[].remindAfter", earlierDuration, " && duration(self) >= duration('1s')"},
		{".waves[].soak", earlierDuration, ""},
		{".windows[].duration", earlierWindow, " && duration(self) != duration('0s')"},
	} {
		field, ok := fields[want.path]
		delete(fields, want.path)
		if !ok || len(field.XValidations) != 1 || field.Pattern != "" || field.MaxLength == nil || *field.MaxLength != 32 {
			t.Errorf("%s is %+v, want one rule for at most 32 characters, and no pattern", want.path, field)
			continue
		}
		if rule := field.XValidations[0]; !strings.HasPrefix(rule.Message, "must be a duration") || !strings.Contains(rule.Message, "such as 30") {
			t.Errorf("%s: the message %q shows no duration", want.path, rule.Message)
		}
		now, before := evaluates(t, field.XValidations[0].Rule), evaluates(t, "true"+want.rule)
		for _, value := range durations {
			if len(value) > 32 {
				continue
			}
			if got, want := now(value), want.pattern.MatchString(value) && before(value); got != want {
				t.Errorf("a value %q is accepted: %t, want %t", value, got, want)
			}
		}
	}
	if len(fields) > 0 {
		t.Errorf("further durations have no test: %v", fields)
	}
}

// durationsOf are the fields of the specification of a policy with a string that a rule or a pattern reads as a duration, by their paths.
func durationsOf(t *testing.T) map[string]apiextensionsv1.JSONSchemaProps {
	t.Helper()
	data, err := config.Policy.ReadFile("policy/00-crd-rolloutpolicies.everynode.dev.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(data, crd); err != nil {
		t.Fatal(err)
	}
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	fields := map[string]apiextensionsv1.JSONSchemaProps{}
	walk(&spec, "", func(path string, schema *apiextensionsv1.JSONSchemaProps) {
		isDuration := func(rule apiextensionsv1.ValidationRule) bool {
			return strings.Contains(rule.Rule, "(ms|s)") || strings.Contains(rule.Rule, "duration(")
		}
		if schema.Type == "string" && (strings.Contains(schema.Pattern, "?s|") || strings.Contains(schema.Pattern, "(ms|s)") || slices.ContainsFunc(schema.XValidations, isDuration)) {
			fields[path] = *schema
		}
	})
	return fields
}

// evaluates returns whether a rule accepts a value; it does not if the rule fails.
func evaluates(t *testing.T, rule string) func(value string) bool {
	t.Helper()
	env, err := cel.NewEnv(cel.Variable("self", cel.StringType))
	if err != nil {
		t.Fatal(err)
	}
	ast, issues := env.Compile(rule)
	if issues.Err() != nil {
		t.Fatalf("%s: %v", rule, issues.Err())
	}
	program, err := env.Program(ast)
	if err != nil {
		t.Fatal(err)
	}
	return func(value string) bool {
		out, _, err := program.Eval(map[string]any{"self": value})
		return err == nil && out.Value() == true
	}
}
