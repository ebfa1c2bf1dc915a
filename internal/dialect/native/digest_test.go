// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/base"
	"everynode.dev/everynode/internal/dialect/native"
	"everynode.dev/everynode/internal/placement"
	"everynode.dev/everynode/internal/rollout"
)

func decode(t testing.TB, text string) map[string]any {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var decoded map[string]any
	if err := json.Unmarshal(data, &decoded); err != nil {
		t.Fatal(err)
	}
	return decoded
}

// daemonSet is a valid DaemonSet with more in its spec; every line of more is indented by two.
func daemonSet(t testing.TB, more string) map[string]any {
	t.Helper()
	return decode(t, `
metadata: {namespace: agents, name: agent, uid: u1, generation: 4}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: a, image: a:1}]}
`+more)
}

func number(n int) rollout.Quantity  { return rollout.Quantity{Value: n} }
func percent(n int) rollout.Quantity { return rollout.Quantity{Value: n, Percent: true} }

func TestDigestDefaults(t *testing.T) {
	obj := daemonSet(t, "")
	w := native.Digest(obj)
	if len(w.Problems) > 0 {
		t.Errorf("problems: %v", w.Problems)
	}
	wantSet := rollout.Set{Strategy: rollout.RollingUpdate, MaxUnavailable: number(1)}
	if !reflect.DeepEqual(w.Set, wantSet) {
		t.Errorf("set %+v, want %+v", w.Set, wantSet)
	}
	if w.Namespace != "agents" || w.Name != "agent" || w.UID != "u1" || w.Generation != 4 || w.Deleting {
		t.Errorf("identity %+v", w)
	}
	if w.HistoryLimit != 10 || w.CollisionCount != nil || w.TemplateGeneration != nil || w.ObservedGeneration != 0 {
		t.Errorf("history %+v", w)
	}
	if w.SelectsAll || !w.Selector.Matches(labels.Set{"app": "agent", "x": "y"}) || w.Selector.Matches(labels.Set{"app": "x"}) {
		t.Errorf("selector %v", w.Selector)
	}
	if got := w.Placement.Fit(placement.Node{Name: "n"}); got != rollout.MustRun {
		t.Errorf("placement: %v", got)
	}
	template := obj["spec"].(map[string]any)["template"].(map[string]any)
	if !reflect.DeepEqual(w.Template, template) {
		t.Errorf("template %v", w.Template)
	}
}

func TestDigestEverything(t *testing.T) {
	w := native.Digest(decode(t, `
metadata:
  namespace: agents
  name: agent
  uid: u1
  generation: 9
  deletionTimestamp: "2026-01-01T00:00:00Z"
  annotations: {deprecated.daemonset.template.generation: "3", everynode.dev/max-replacing: 20%, other: x}
spec:
  selector: {matchExpressions: [{key: app, operator: In, values: [agent]}]}
  minReadySeconds: 5
  revisionHistoryLimit: 0
  updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 0, maxSurge: 30%}}
  template:
    metadata: {labels: {app: agent}}
    spec: {nodeSelector: {pool: a}, containers: [{name: a, image: a:1}]}
status:
  collisionCount: 2
  observedGeneration: 8
  desiredNumberScheduled: 1
  currentNumberScheduled: 2
  numberMisscheduled: 3
  numberReady: 4
  updatedNumberScheduled: 5
  numberAvailable: 6
  numberUnavailable: 7
`))
	if len(w.Problems) > 0 {
		t.Errorf("problems: %v", w.Problems)
	}
	replacing := percent(20)
	wantSet := rollout.Set{
		Strategy: rollout.RollingUpdate, MaxUnavailable: number(0), MaxSurge: percent(30),
		MaxReplacing: &replacing, MinReady: 5 * time.Second,
	}
	if !reflect.DeepEqual(w.Set, wantSet) {
		t.Errorf("set %+v, want %+v", w.Set, wantSet)
	}
	wantStatus := rollout.Status{Desired: 1, Current: 2, Misscheduled: 3, Ready: 4, Updated: 5, Available: 6, Unavailable: 7}
	if w.Status != wantStatus || w.ObservedGeneration != 8 {
		t.Errorf("status %+v, observed %d", w.Status, w.ObservedGeneration)
	}
	if w.HistoryLimit != 0 || w.CollisionCount == nil || *w.CollisionCount != 2 || w.TemplateGeneration == nil || *w.TemplateGeneration != 3 {
		t.Errorf("history %+v", w)
	}
	if !w.Deleting || w.Annotations["other"] != "x" {
		t.Errorf("metadata %+v", w)
	}
	if got := w.Placement.Fit(placement.Node{Name: "n"}); got != rollout.MustLeave {
		t.Errorf("placement: %v", got)
	}
}

func TestDigestStrategy(t *testing.T) {
	rolling := func(fields string) string { return "  updateStrategy: {rollingUpdate: {" + fields + "}}" }
	cases := []struct {
		name, more               string
		strategy                 rollout.Strategy
		maxUnavailable, maxSurge rollout.Quantity
		problems, fatal          int
	}{
		{"OnDelete", "  updateStrategy: {type: OnDelete}", rollout.OnDelete, number(1), number(0), 0, 0},
		{"OnDelete with a leftover", "  updateStrategy: {type: OnDelete, rollingUpdate: {maxSurge: 5, maxUnavailable: x}}", rollout.OnDelete, number(1), number(0), 0, 0},
		{"no type", rolling("maxUnavailable: 3"), rollout.RollingUpdate, number(3), number(0), 0, 0},
		{"null", "  updateStrategy: {type: null, rollingUpdate: null}", rollout.RollingUpdate, number(1), number(0), 0, 0},
		{"percent", rolling("maxUnavailable: 10%, maxSurge: 5%"), rollout.RollingUpdate, percent(10), percent(5), 0, 0},
		{"more than all", rolling("maxUnavailable: 150%"), rollout.RollingUpdate, percent(150), number(0), 0, 0},
		{"surge alone", rolling("maxUnavailable: 0, maxSurge: 1"), rollout.RollingUpdate, number(0), number(1), 0, 0},
		{"both 0", rolling("maxUnavailable: 0"), rollout.RollingUpdate, number(1), number(0), 1, 0},
		{"both 0 percent", rolling("maxUnavailable: 0%, maxSurge: 0%"), rollout.RollingUpdate, number(1), percent(0), 1, 0},
		{"a number in a string", rolling(`maxUnavailable: "3"`), rollout.RollingUpdate, number(1), number(0), 1, 1},
		{"negative", rolling("maxUnavailable: -1"), rollout.RollingUpdate, number(1), number(0), 1, 1},
		{"negative percent", rolling("maxSurge: -5%"), rollout.RollingUpdate, number(1), number(0), 1, 1},
		{"a fraction", rolling("maxUnavailable: 1.5"), rollout.RollingUpdate, number(1), number(0), 1, 1},
		{"a percent sign alone", rolling(`maxUnavailable: "%"`), rollout.RollingUpdate, number(1), number(0), 1, 1},
		{"too large", rolling("maxUnavailable: 9999999999"), rollout.RollingUpdate, number(1), number(0), 1, 1},
		{"another type", "  updateStrategy: {type: BigBang}", rollout.OnDelete, number(1), number(0), 1, 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := native.Digest(daemonSet(t, c.more))
			if w.Set.Strategy != c.strategy || w.Set.MaxUnavailable != c.maxUnavailable || w.Set.MaxSurge != c.maxSurge {
				t.Errorf("got %+v", w.Set)
			}
			if len(w.Problems) != c.problems || fatal(w.Problems) != c.fatal {
				t.Errorf("problems %v, want %d of which %d fatal", w.Problems, c.problems, c.fatal)
			}
		})
	}
}

func fatal(problems []dialect.Problem) int {
	n := 0
	for _, p := range problems {
		if p.Fatal {
			n++
		}
	}
	return n
}

func TestDigestMaxReplacing(t *testing.T) {
	for text, want := range map[string]rollout.Quantity{
		"1": number(1), "25": number(25), "1%": percent(1), "100%": percent(100),
	} {
		w := native.Digest(annotated(t, "everynode.dev/max-replacing", text))
		if w.Set.MaxReplacing == nil || *w.Set.MaxReplacing != want || len(w.Problems) > 0 {
			t.Errorf("%q: got %v, problems %v", text, w.Set.MaxReplacing, w.Problems)
		}
	}
	for _, text := range []string{"", "0", "0%", "-1", "+1", "101%", "x", "1.5", " 1", "1 %", "99999999999", "%", "1%%"} {
		w := native.Digest(annotated(t, "everynode.dev/max-replacing", text))
		if w.Set.MaxReplacing == nil || *w.Set.MaxReplacing != number(1) {
			t.Errorf("%q: got %v, want the strictest cap, 1", text, w.Set.MaxReplacing)
		}
		want := dialect.Problem{
			Reason: "InvalidAnnotation",
			Message: "Annotation everynode.dev/max-replacing is " + quoted(text) + ": set it to a whole number from 1, or a percentage " +
				"from 1% to 100%; until then one node at a time is replaced.",
		}
		if len(w.Problems) != 1 || w.Problems[0] != want {
			t.Errorf("%q: got %v, want %v", text, w.Problems, want)
		}
	}
}

func quoted(text string) string {
	data, _ := json.Marshal(text)
	return string(data)
}

func annotated(t testing.TB, key, value string) map[string]any {
	obj := daemonSet(t, "")
	obj["metadata"].(map[string]any)["annotations"] = map[string]any{key: value}
	return obj
}

func TestDigestTemplateGeneration(t *testing.T) {
	w := native.Digest(annotated(t, "deprecated.daemonset.template.generation", "x"))
	if w.TemplateGeneration != nil || len(w.Problems) != 1 || w.Problems[0].Fatal || w.Problems[0].Reason != base.ReasonInvalidAnnotation {
		t.Errorf("got %v, problems %v", w.TemplateGeneration, w.Problems)
	}
}

func TestDigestEmptySelector(t *testing.T) {
	for _, selector := range []string{`{}`, `{matchLabels: {}}`, `{matchLabels: null, matchExpressions: []}`} {
		obj := daemonSet(t, "")
		obj["spec"].(map[string]any)["selector"] = decode(t, selector)
		w := native.Digest(obj)
		want := []dialect.Problem{{
			Reason: "SelectingAll", Message: "This daemon set is selecting all pods. A non-empty selector is required.", Fatal: true,
		}}
		if !w.SelectsAll || !reflect.DeepEqual(w.Problems, want) {
			t.Errorf("%s: SelectsAll %v, problems %v", selector, w.SelectsAll, w.Problems)
		}
	}
}

// Each of these is one sentence that names the field and says what to do.
func TestDigestFatalProblems(t *testing.T) {
	cases := []struct {
		name string
		path []string
		text string
		want string
	}{
		{"no spec", []string{"spec"}, `null`, "Field spec is missing: add it."},
		{"spec of a wrong type", []string{"spec"}, `[1]`, "Field spec is [1]: make it an object."},
		{"no template", []string{"spec", "template"}, `null`, "Field spec.template is missing: add it."},
		{"template of a wrong type", []string{"spec", "template"}, `"x"`, `Field spec.template is "x": make it an object.`},
		{"no pod spec", []string{"spec", "template", "spec"}, `null`, "Field spec.template.spec is missing: add it."},
		{"no selector", []string{"spec", "selector"}, `null`, "Field spec.selector is missing: add it."},
		{"labels of a wrong type", []string{"spec", "template", "metadata", "labels"}, `{app: 7}`, "Field spec.template.metadata.labels is not a map of strings: make all its values strings."},
		{"annotations of a wrong type", []string{"metadata", "annotations"}, `[]`, "Field metadata.annotations is not a map of strings: make all its values strings."},
		{"selector does not match", []string{"spec", "selector"}, `{matchLabels: {app: other}}`, "Field spec.selector does not match the labels of spec.template: add the labels that it asks for to the template."},
		{"selector with an operator nobody knows", []string{"spec", "selector"}, `{matchExpressions: [{key: a, operator: Near}]}`, "Field spec.selector cannot be used: correct what is wrong ("},
		{"selector of a wrong type", []string{"spec", "selector"}, `{matchLabels: 7}`, "Field spec.selector cannot be read: correct what is wrong ("},
		{"tolerations of a wrong type", []string{"spec", "template", "spec", "tolerations"}, `7`, "Field spec.template.spec cannot be read: correct what is wrong ("},
		{"minReadySeconds", []string{"spec", "minReadySeconds"}, `-1`, "Field spec.minReadySeconds is -1: set it to a whole number from 0 to 2147483647."},
		{"revisionHistoryLimit", []string{"spec", "revisionHistoryLimit"}, `"3"`, `Field spec.revisionHistoryLimit is "3": set it to a whole number from 0 to 2147483647.`},
		{"type of strategy", []string{"spec", "updateStrategy"}, `{type: BigBang}`, `Field spec.updateStrategy.type is "BigBang": set it to RollingUpdate or OnDelete.`},
		{"budget", []string{"spec", "updateStrategy"}, `{rollingUpdate: {maxSurge: many}}`, `Field spec.updateStrategy.rollingUpdate.maxSurge is "many": set it to a whole number such as 3, or a percentage such as "10%".`},
		{"a long value", []string{"spec", "template"}, `"` + strings.Repeat("x", 100) + `"`, `Field spec.template is "` + strings.Repeat("x", 39) + `…: make it an object.`},
		{"name of a wrong type", []string{"metadata", "name"}, `7`, "Field metadata.name is 7: make it a string."},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			obj := daemonSet(t, "")
			set(obj, c.path, decode(t, `{value: `+c.text+`}`)["value"])
			w := native.Digest(obj)
			for _, p := range w.Problems {
				if p.Fatal && p.Reason == base.ReasonInvalidSpec && strings.HasPrefix(p.Message, c.want) {
					return
				}
			}
			t.Errorf("got %v, want a fatal %q", w.Problems, c.want)
		})
	}
}

// set sets the field at path of obj.
func set(obj map[string]any, path []string, value any) {
	for _, key := range path[:len(path)-1] {
		obj = obj[key].(map[string]any)
	}
	obj[path[len(path)-1]] = value
}

// A nonsensical node affinity is reported, but pods keep being managed, as upstream does.
func TestDigestNonsensicalAffinity(t *testing.T) {
	obj := daemonSet(t, "")
	set(obj, []string{"spec", "template", "spec", "affinity"}, decode(t,
		`{nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Near}]}]}}}`))
	w := native.Digest(obj)
	if w.Placement == nil || len(w.Problems) != 1 || w.Problems[0].Fatal || !strings.Contains(w.Problems[0].Message, "nodeSelectorTerms[0].matchExpressions[0].operator") {
		t.Errorf("placement %v, problems %v", w.Placement, w.Problems)
	}
}

func TestDigestOfNothing(t *testing.T) {
	for _, obj := range []map[string]any{nil, {}, {"metadata": 7, "spec": 7, "status": 7}} {
		w := native.Digest(obj)
		if fatal(w.Problems) == 0 || w.Selector == nil || w.Selector.Matches(labels.Set{}) {
			t.Errorf("%v: problems %v, selector %v", obj, w.Problems, w.Selector)
		}
	}
}

// FuzzDigest: whatever comes in, a set that is worked on is one that can be worked on.
func FuzzDigest(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{}}}}`,
		`{"spec":{"updateStrategy":{"rollingUpdate":{"maxUnavailable":1e99,"maxSurge":{}}},"minReadySeconds":-0.0}}`,
		`{"metadata":{"annotations":{"everynode.dev/max-replacing":"\u0000%"},"generation":1e300},"status":{"collisionCount":-1}}`,
		`{"spec":{"template":{"metadata":7,"spec":{"affinity":[],"tolerations":[null]}},"selector":{"matchExpressions":[null]}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		var obj map[string]any
		if json.Unmarshal(input, &obj) != nil {
			return
		}
		w := native.Digest(obj)
		native.StatusPatch(&w, dialect.Report{Numbers: rollout.Status{Desired: 1}, ObservedGeneration: 1})
		if fatal(w.Problems) > 0 {
			return
		}
		if w.Template == nil || w.Placement == nil || w.SelectsAll || w.Selector.Empty() || w.Set.Strategy == 0 {
			t.Fatalf("no fatal problem, but %+v", w)
		}
		if w.HistoryLimit < 0 || w.Set.MinReady < 0 || w.Set.MaxUnavailable.Value < 0 || w.Set.MaxSurge.Value < 0 ||
			w.Set.MaxUnavailable.Value+w.Set.MaxSurge.Value == 0 {
			t.Fatalf("no fatal problem, but %+v", w)
		}
	})
}
