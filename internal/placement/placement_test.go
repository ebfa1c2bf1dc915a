// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/internal/placement"
	"everynode.dev/everynode/internal/rollout"
)

// spec decodes a pod spec written in YAML.
func spec(t testing.TB, text string) map[string]any {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	var decoded map[string]any
	if err := json.Unmarshal(data, &decoded); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return decoded
}

func compile(t testing.TB, text string) *placement.Rules {
	t.Helper()
	rules, err := placement.Compile(spec(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// taints parses "key=value:Effect" and "key:Effect", separated by spaces.
func taints(text string) []corev1.Taint {
	var list []corev1.Taint
	for _, word := range strings.Fields(text) {
		name, effect, _ := strings.Cut(word, ":")
		key, value, _ := strings.Cut(name, "=")
		list = append(list, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
	}
	return list
}

const (
	must  = rollout.MustRun
	may   = rollout.MayStay
	leave = rollout.MustLeave
)

func TestFitTaints(t *testing.T) {
	const notReady = "node.kubernetes.io/not-ready"
	cases := []struct {
		name, spec, taints string
		want               rollout.Fit
	}{
		{"no taints", `{}`, "", must},
		{"NoSchedule", `{}`, "a:NoSchedule", may},
		{"NoExecute", `{}`, "a:NoExecute", leave},
		{"PreferNoSchedule", `{}`, "a:PreferNoSchedule", must},
		{"an effect nobody knows", `{}`, "a:NoBreathing", must},
		{"both, one way", `{}`, "a:NoSchedule b:NoExecute", leave},
		{"both, the other way", `{}`, "b:NoExecute a:NoSchedule", leave},
		{"NoExecute tolerated, NoSchedule not", `{tolerations: [{key: b, operator: Exists}]}`, "b:NoExecute a:NoSchedule", may},
		{"everything tolerated", `{tolerations: [{operator: Exists}]}`, "b:NoExecute a:NoSchedule", must},
		{"value equal", `{tolerations: [{key: a, value: x}]}`, "a=x:NoExecute", must},
		{"value not equal", `{tolerations: [{key: a, operator: Equal, value: other}]}`, "a=x:NoExecute", leave},
		{"effect does not match", `{tolerations: [{key: a, operator: Exists, effect: NoSchedule}]}`, "a:NoExecute", leave},
		{"for a while only, but tolerated", `{tolerations: [{key: a, operator: Exists, tolerationSeconds: 5}]}`, "a:NoExecute", must},
		{"automatic: not ready", `{}`, notReady + ":NoExecute node.kubernetes.io/unreachable:NoExecute", must},
		{"automatic: not ready, but NoSchedule", `{}`, notReady + ":NoSchedule", may},
		{"automatic: pressure", `{}`, "node.kubernetes.io/disk-pressure:NoSchedule node.kubernetes.io/memory-pressure:NoSchedule node.kubernetes.io/pid-pressure:NoSchedule", must},
		{"automatic: cordoned", `{}`, "node.kubernetes.io/unschedulable:NoSchedule", must},
		{"network unavailable", `{}`, "node.kubernetes.io/network-unavailable:NoSchedule", may},
		{"network unavailable, host network", `{hostNetwork: true}`, "node.kubernetes.io/network-unavailable:NoSchedule", must},
		{"comparison operators are off", `{tolerations: [{key: a, operator: Gt, value: "1"}]}`, "a=5:NoExecute", leave},
		{"an operator nobody knows", `{tolerations: [{key: a, operator: Near, value: "5"}]}`, "a=5:NoExecute", leave},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			node := placement.Node{Name: "n", Taints: taints(c.taints)}
			rules := compile(t, c.spec)
			if got := rules.Fit(node); got != c.want {
				t.Errorf("Fit = %v, want %v", got, c.want)
			}
			if got := explained(rules, node); got != c.want {
				t.Errorf("Explain leads to %v, want %v: %+v", got, c.want, rules.Explain(node))
			}
		})
	}
}

func TestFitSelection(t *testing.T) {
	const required = "requiredDuringSchedulingIgnoredDuringExecution"
	terms := func(list string) string {
		return `{affinity: {nodeAffinity: {` + required + `: {nodeSelectorTerms: ` + list + `}}}}`
	}
	node := placement.Node{Name: "n1", Labels: map[string]string{"pool": "a", "cores": "8"}}
	cases := []struct {
		name, spec string
		want       rollout.Fit
	}{
		{"node name", `{nodeName: n1}`, must},
		{"another node's name", `{nodeName: n2}`, leave},
		{"node selector", `{nodeSelector: {pool: a}}`, must},
		{"node selector, other value", `{nodeSelector: {pool: b}}`, leave},
		{"node selector, one of two", `{nodeSelector: {pool: a, zone: z}}`, leave},
		{"empty node selector", `{nodeSelector: {}}`, must},
		{"affinity", terms(`[{matchExpressions: [{key: pool, operator: In, values: [a, b]}]}]`), must},
		{"affinity does not match", terms(`[{matchExpressions: [{key: pool, operator: NotIn, values: [a, b]}]}]`), leave},
		{"affinity compares", terms(`[{matchExpressions: [{key: cores, operator: Gt, values: ["7"]}]}]`), must},
		{"terms are alternatives", terms(`[{matchExpressions: [{key: x, operator: Exists}]}, {matchExpressions: [{key: pool, operator: Exists}]}]`), must},
		{"expressions are not", terms(`[{matchExpressions: [{key: x, operator: Exists}, {key: pool, operator: Exists}]}]`), leave},
		{"field", terms(`[{matchFields: [{key: metadata.name, operator: In, values: [n1]}]}]`), must},
		{"field of another node", terms(`[{matchFields: [{key: metadata.name, operator: In, values: [n2]}]}]`), leave},
		{"field and expression", terms(`[{matchFields: [{key: metadata.name, operator: NotIn, values: [n2]}], matchExpressions: [{key: pool, operator: DoesNotExist}]}]`), leave},
		{"no terms select nothing", terms(`[]`), leave},
		{"an empty term selects nothing", terms(`[{}]`), leave},
		{"selector and affinity", `{nodeSelector: {pool: b}, affinity: {nodeAffinity: {` + required + `: {nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: Exists}]}]}}}}`, leave},
		{"preferred affinity does not matter", `{affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: x, operator: Exists}]}}]}}}`, must},
		{"pod affinity does not matter", `{affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: pool}]}}}`, must},
		{"nulls", `{affinity: null, nodeSelector: null, tolerations: null, nodeName: null, hostNetwork: null}`, must},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			rules := compile(t, c.spec)
			if got := rules.Fit(node); got != c.want {
				t.Errorf("Fit = %v, want %v", got, c.want)
			}
			if got := explained(rules, node); got != c.want {
				t.Errorf("Explain leads to %v, want %v: %+v", got, c.want, rules.Explain(node))
			}
		})
	}
}

// A pod may not even stay where the template does not select the node, whatever the taints.
func TestSelectionComesBeforeTaints(t *testing.T) {
	rules := compile(t, `{nodeSelector: {pool: a}}`)
	node := placement.Node{Name: "n", Taints: taints("a:NoSchedule")}
	if got := rules.Fit(node); got != leave {
		t.Errorf("Fit = %v, want %v", got, leave)
	}
}

func TestNoRulesDoNotEvaluate(t *testing.T) {
	var rules *placement.Rules
	if got := rules.Fit(placement.Node{}); got != 0 {
		t.Errorf("Fit = %v, want 0", got)
	}
}

func TestUnreadableSpecs(t *testing.T) {
	for text, want := range map[string]string{
		`{nodeName: 7}`:                           "nodeName",
		`{nodeSelector: [a]}`:                     "nodeSelector",
		`{nodeSelector: {a: 7}}`:                  "nodeSelector",
		`{affinity: x}`:                           "affinity",
		`{affinity: {nodeAffinity: 7}}`:           "affinity",
		`{tolerations: {}}`:                       "tolerations",
		`{tolerations: [x]}`:                      "tolerations",
		`{tolerations: [{tolerationSeconds: x}]}`: "tolerations",
		`{hostNetwork: "true"}`:                   "hostNetwork",
	} {
		rules, err := placement.Compile(spec(t, text))
		if rules != nil || err == nil || !strings.Contains(err.Error(), "field "+want) {
			t.Errorf("%s: got %v, %v; want an error about %s and no rules", text, rules, err, want)
		}
	}
}

// A term that makes no sense is reported, and selects nothing; the others count.
func TestNonsensicalAffinity(t *testing.T) {
	rules, err := placement.Compile(spec(t, `
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
      - matchExpressions: [{key: pool, operator: Near, values: [a]}]
      - matchExpressions: [{key: pool, operator: In, values: [b]}]
      - matchFields: [{key: metadata.name, operator: In, values: [n1, n2]}]
`))
	if rules == nil || err == nil {
		t.Fatalf("got %v, %v; want rules and an error", rules, err)
	}
	for _, want := range []string{
		"spec.template.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator",
		"nodeSelectorTerms[2].matchFields[0].values",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %s: %v", want, err)
		}
	}
	if got := rules.Fit(placement.Node{Name: "n1", Labels: map[string]string{"pool": "a"}}); got != leave {
		t.Errorf("pool a: Fit = %v, want %v", got, leave)
	}
	if got := rules.Fit(placement.Node{Name: "n1", Labels: map[string]string{"pool": "b"}}); got != must {
		t.Errorf("pool b: Fit = %v, want %v", got, must)
	}
}

func TestTargetNode(t *testing.T) {
	pin := func(fields string) string {
		return `{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: ` + fields + `}}}}`
	}
	cases := []struct{ name, spec, want string }{
		{"bound", `{nodeName: n1}`, "n1"},
		{"bound and pinned", `{nodeName: n1, affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [n2]}]}]}}}}`, "n1"},
		{"nothing", `{}`, ""},
		{"pod affinity only", `{affinity: {}}`, ""},
		{"preferred only", `{affinity: {nodeAffinity: {}}}`, ""},
		{"no terms", pin(`[]`), ""},
		{"pinned", pin(`[{matchFields: [{key: metadata.name, operator: In, values: [n2]}]}]`), "n2"},
		{"pinned in the second term", pin(`[{matchExpressions: [{key: a, operator: Exists}]}, {matchFields: [{key: metadata.name, operator: In, values: [n2]}]}]`), "n2"},
		{"other field", pin(`[{matchFields: [{key: metadata.namespace, operator: In, values: [n2]}]}]`), ""},
		{"other operator", pin(`[{matchFields: [{key: metadata.name, operator: NotIn, values: [n2]}]}]`), ""},
		{"several nodes", pin(`[{matchFields: [{key: metadata.name, operator: In, values: [n2, n3]}]}, {matchFields: [{key: metadata.name, operator: In, values: [n2]}]}]`), ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			pod := &corev1.Pod{}
			if err := yaml.Unmarshal([]byte(c.spec), &pod.Spec); err != nil {
				t.Fatal(err)
			}
			if got := placement.TargetNode(pod); got != c.want {
				t.Errorf("TargetNode = %q, want %q", got, c.want)
			}
		})
	}
}
