// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	schemas "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/config"
)

// definition is what an API server knows of the definition of a resource.
type definition struct {
	schema *structural.Structural
	fields schemas.SchemaValidator
	rules  *cel.Validator
}

// policyDefinition reads the definition of rollout policies, which an API server must accept: with what its rules in CEL may cost.
func policyDefinition(t *testing.T) *definition {
	t.Helper()
	data, err := config.Policy.ReadFile("policy/00-crd-rolloutpolicies.everynode.dev.yaml")
	if err != nil {
		t.Fatal(err)
	}
	written := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(data, written); err != nil {
		t.Fatal(err)
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(written)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&written.Spec)
	crd := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(written, crd, nil); err != nil {
		t.Fatal(err)
	}
	crd.Status.StoredVersions = []string{"v1alpha1"}
	if errs := validation.ValidateCustomResourceDefinition(t.Context(), crd); len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	props, err := apiextensions.GetSchemaForVersion(crd, "v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	d := &definition{}
	if d.schema, err = structural.NewStructural(props.OpenAPIV3Schema); err != nil {
		t.Fatal(err)
	}
	if d.fields, _, err = schemas.NewSchemaValidator(props.OpenAPIV3Schema); err != nil {
		t.Fatal(err)
	}
	d.rules = cel.NewValidator(d.schema, true, celconfig.PerCallLimit)
	return d
}

// creates returns why an API server refuses a new policy.
func (d *definition) creates(t *testing.T, policy map[string]any) field.ErrorList {
	t.Helper()
	errs := schemas.ValidateCustomResource(nil, policy, d.fields)
	more, _ := d.rules.Validate(t.Context(), nil, d.schema, policy, nil, celconfig.RuntimeCELCostBudget)
	return append(errs, more...)
}

// updates returns why an API server refuses a change of a policy that is stored. What the change does not touch is not judged.
func (d *definition) updates(t *testing.T, stored, policy map[string]any) field.ErrorList {
	t.Helper()
	correlated := common.NewCorrelatedObject(policy, stored, &model.Structural{Structural: d.schema})
	errs := schemas.ValidateCustomResourceUpdate(nil, policy, stored, d.fields, schemas.WithRatcheting(correlated))
	more, _ := d.rules.Validate(t.Context(), nil, d.schema, policy, stored, celconfig.RuntimeCELCostBudget, cel.WithRatcheting(correlated))
	return append(errs, more...)
}

// written reads a policy with these fields in its specification.
func written(t *testing.T, spec string) map[string]any {
	t.Helper()
	manifest := "apiVersion: everynode.dev/v1alpha1\nkind: RolloutPolicy\nmetadata: {name: x}\nspec: {targets: [{apiVersion: apps/v1, kind: DaemonSet, name: x}], " + spec + "}"
	data, err := yaml.YAMLToJSON([]byte(manifest))
	if err != nil {
		t.Fatalf("%s: %v", spec, err)
	}
	policy := map[string]any{}
	if err := json.Unmarshal(data, &policy); err != nil { // whole numbers stay whole, as in an API server
		t.Fatalf("%s: %v", spec, err)
	}
	return policy
}

// TestDurationsThatAreRefused: a user reads one error with the path of the field, and what would be accepted.
func TestDurationsThatAreRefused(t *testing.T) {
	d := policyDefinition(t)
	const plain, least = "must be a duration of at most 99999h, such as 30s, 10m or 24h", "must be a duration from 1s to 99999h, such as 30s, 10m or 24h"
	for _, bad := range []struct{ spec, path, message string }{
		{"waves: [{name: a, nodes: {count: 1}, soak: 1d}]", "spec.waves[0].soak", plain},
		{"waves: [{name: a, nodes: {count: 1}, soak: soon}]", "spec.waves[0].soak", plain},
		{"waves: [{name: a, nodes: {count: 1}, after: [{type: Approval, remindAfter: 1d}]}]", "spec.waves[0].after[0].remindAfter", least},
		{"waves: [{name: a, nodes: {count: 1}, after: [{type: Approval, remindAfter: 1ms}]}]", "spec.waves[0].after[0].remindAfter", least},
		{"pace: {minTimeBetween: 1d}", "spec.pace.minTimeBetween", plain},
		{"unreachableAfter: 1d", "spec.unreachableAfter", plain},
		{"failure: {nodeDeadline: 0s}", "spec.failure.nodeDeadline", least},
		{"failure: {nodeDeadline: 1d}", "spec.failure.nodeDeadline", least},
		{"failure: {waveDeadline: 0s}", "spec.failure.waveDeadline", least},
		{"windows: [{schedule: 0 22 * * *, duration: 1d}]", "spec.windows[0].duration", "must be a duration of more than 0s, such as 30s, 10m or 24h"},
		{"windows: [{schedule: 0 22 * * *, duration: 0s}]", "spec.windows[0].duration", "must be a duration of more than 0s, such as 30s, 10m or 24h"},
		{"analyses: [{name: a, provider: p, success: 'true', interval: 1d}]", "spec.analyses[0].interval", "must be a duration from 5s to 24h, such as 30s or 10m"},
		{"analyses: [{name: a, provider: p, success: 'true', interval: 1s}]", "spec.analyses[0].interval", "must be a duration from 5s to 24h, such as 30s or 10m"},
		{"analyses: [{name: a, provider: p, success: 'true', unknownDeadline: 9999h}]", "spec.analyses[0].unknownDeadline", "must be a duration from 1s to 168h, such as 30m"},
	} {
		errs := d.creates(t, written(t, bad.spec))
		if len(errs) != 1 || errs[0].Field != bad.path || errs[0].Detail != bad.message {
			t.Errorf("%s: %v, want %s: %s", bad.spec, errs.ToAggregate(), bad.path, bad.message)
		}
	}
}

// TestMistakesAreRefused: what would only stall a policy later is refused when it is written, and what the manager can follow is accepted.
func TestMistakesAreRefused(t *testing.T) {
	d := policyDefinition(t)
	const (
		percents = "percentages include the nodes of earlier waves, so each nodes.percent without a selector must be higher than those before it"
		fields   = "must have the five fields of cron, such as 0 22 * * 1-5: minute, hour, day of month, month, day of week"
		window   = "windows: [{duration: 1h, schedule: %q}]"
		waves    = "waves: [{name: a, nodes: {%s}}, {name: b, nodes: {%s}}, {name: c, nodes: {%s}}]"
	)
	for _, c := range []struct{ spec, path, message string }{
		{fmt.Sprintf(waves, "percent: 10", "percent: 50", "percent: 20"), "spec.waves", percents},
		{fmt.Sprintf(waves, "percent: 50", "count: 3", "percent: 20"), "spec.waves", percents},
		{fmt.Sprintf(waves, "percent: 20", "count: 3", "percent: 20"), "spec.waves", percents},
		{fmt.Sprintf(waves, "percent: 10", "percent: 20", "percent: 50"), "", ""},
		{fmt.Sprintf(waves, "percent: 9", "percent: 10", "percent: 100"), "", ""},
		{fmt.Sprintf(waves, "count: 50", "percent: 20", "count: 1"), "", ""},
		{fmt.Sprintf(waves, "percent: 50", "percent: 20, selector: {matchLabels: {a: b}}", "percent: 60"), "", ""},
		{fmt.Sprintf(waves, "percent: 50, selector: {matchLabels: {a: b}}", "percent: 20", "percent: 50"), "", ""},
		{fmt.Sprintf(window, "0 22 * *"), "spec.windows[0].schedule", fields},
		{fmt.Sprintf(window, "0 0 22 * * *"), "spec.windows[0].schedule", fields},
		{fmt.Sprintf(window, "TZ=UTC 0 22 * * *"), "spec.windows[0].schedule", fields},
		{fmt.Sprintf(window, "@every 1h"), "spec.windows[0].schedule", fields},
		{fmt.Sprintf(window, " "), "spec.windows[0].schedule", fields},
		{fmt.Sprintf(window, "0 22 * * *"), "", ""},
		{fmt.Sprintf(window, " 0,30  22-23/2 * jan\tMon-Fri "), "", ""},
		{fmt.Sprintf(window, "0\u00a022 * * *"), "", ""},
		{fmt.Sprintf(window, "@daily"), "", ""},
		{fmt.Sprintf(window, "@midnight"), "", ""},
	} {
		errs := d.creates(t, written(t, c.spec))
		switch {
		case c.path == "" && len(errs) > 0:
			t.Errorf("%s: %v", c.spec, errs.ToAggregate())
		case c.path != "" && (len(errs) != 1 || errs[0].Field != c.path || errs[0].Detail != c.message):
			t.Errorf("%s: %v, want %s: %s", c.spec, errs.ToAggregate(), c.path, c.message)
		}
	}
}

// TestManyDurationsAreAccepted: the rules of a policy that is as large as it can be cost less than an API server allows.
func TestManyDurationsAreAccepted(t *testing.T) {
	d := policyDefinition(t)
	var waves, windows, analyses []string
	const long = "11111h1111111m1111111m1111111.1ms" // one character too many
	for i := range 32 {
		waves = append(waves, fmt.Sprintf("{name: w%d, nodes: {count: 1}, soak: %s, after: [{type: Approval, remindAfter: %[2]s}]}", i, long[1:]))
		windows = append(windows, "{schedule: 0 22 * * *, duration: 1111111m1111111m1111111m111.11s}")
	}
	for i := range 8 {
		analyses = append(analyses, fmt.Sprintf("{name: a%d, provider: p, success: 'true', interval: 1m0.000000001s, unknownDeadline: 1h}", i))
	}
	all := fmt.Sprintf("waves: [%s], windows: [%s], analyses: [%s]", strings.Join(waves, ", "), strings.Join(windows, ", "), strings.Join(analyses, ", "))
	if errs := d.creates(t, written(t, all)); len(errs) > 0 {
		t.Error(errs.ToAggregate())
	}
	if errs := d.creates(t, written(t, strings.Replace(all, long[1:], long, 1))); len(errs) == 0 {
		t.Error("a duration of 33 characters is accepted")
	}
}

// TestStoredPoliciesStayEditable: a value that an earlier definition accepted may stay while other fields change, and its removal is possible too.
func TestStoredPoliciesStayEditable(t *testing.T) {
	d := policyDefinition(t)
	const (
		never    = "windows: [{schedule: 0 22 * * *, duration: 0s}, {schedule: 0 3 * * *, duration: 1h}]"
		short    = "windows: [{schedule: 0 22 * *, duration: 1h}]"
		fewer    = "waves: [{name: a, nodes: {percent: 50}}, {name: b, nodes: {percent: 20}}]"
		reminder = "waves: [{name: a, nodes: {count: 1}, after: [{type: Approval, remindAfter: 1ms}]}]"
	)
	for _, change := range []struct {
		from, to string
		refused  []string
	}{
		{never, never + ", suspend: true", nil},
		{never, "suspend: true", nil},
		{never, "windows: [{schedule: 0 3 * * *, duration: 1h}]", nil},
		{never, never + ", unreachableAfter: 1d", []string{"spec.unreachableAfter"}},
		{"windows: [{schedule: 0 3 * * *, duration: 1h}]", never, []string{"spec.windows[0].duration"}},
		{short, short + ", suspend: true", nil},
		{short, strings.Replace(short, "1h", "2h", 1), []string{"spec.windows[0].schedule"}},
		{fewer, fewer + ", suspend: true", nil},
		{fewer, strings.Replace(fewer, "20", "60", 1), nil},
		{"suspend: true", fewer, []string{"spec.waves"}},
		{reminder, reminder + ", suspend: true", nil},
		{"suspend: true", reminder, []string{"spec.waves[0].after[0].remindAfter"}},
	} {
		var paths []string
		for _, err := range d.updates(t, written(t, change.from), written(t, change.to)) {
			paths = append(paths, err.Field)
		}
		if !slices.Equal(paths, change.refused) {
			t.Errorf("from %s to %s: %q are refused, want %q", change.from, change.to, paths, change.refused)
		}
	}
}
