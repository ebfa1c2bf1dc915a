// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"encoding/json"
	"maps"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/cli/policies"
	"everynode.dev/everynode/internal/cli/resolver"
	"everynode.dev/everynode/internal/dialects"
)

// hooked is a set with a hook, and the pod of node-7 waits for it.
func hooked(t *testing.T) *window {
	t.Helper()
	r := roll()
	r.Spec = map[string]any{
		"lifecycle": map[string]any{"preDelete": map[string]any{"labelsHandler": map[string]any{"hold": "yes"}}},
		"updateStrategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{
			"maxUnavailable": int64(2), "partition": "20%", "selector": map[string]any{"matchLabels": map[string]any{"zone": "a"}},
		}},
	}
	cluster := zoned(t, r)
	pods, err := cluster.Kubernetes.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		if p := &pods.Items[i]; p.Spec.NodeName == "node-7" {
			p.Labels["hold"], p.Labels[kruise.LifecycleState] = "yes", kruise.LifecyclePreparingDelete
			if _, err := cluster.Kubernetes.CoreV1().Pods("default").Update(t.Context(), p, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return open(t, cluster)
}

// TestActions: each action of the page is the verb of the plugin, tried first, with the line for a shell.
func TestActions(t *testing.T) {
	w := hooked(t)
	const of = `, "namespace": "default", "set": "ads/agent", "dryRun": true}`
	for body, want := range map[string][2]string{
		`{"verb": "partition", "arguments": ["50%"]`:                      {"partition set to 50%", "kubectl everynode partition -n default --dry-run=server ads/agent 50%"},
		`{"verb": "canary", "arguments": ["zone=b"]`:                      {"canary on nodes that match zone=b", "kubectl everynode canary -n default --dry-run=server ads/agent zone=b"},
		`{"verb": "canary", "flags": {"off": "true"}`:                     {"canary off", "kubectl everynode canary -n default --off --dry-run=server ads/agent"},
		`{"verb": "restart"`:                                              {"restarted", "kubectl everynode restart -n default --dry-run=server ads/agent"},
		`{"verb": "set-image", "arguments": ["agent=x:3"]`:                {"image updated", "kubectl everynode set-image -n default --dry-run=server ads/agent agent=x:3"},
		`{"verb": "undo", "flags": {"to-revision": "1"}`:                  {"rolled back to revision 1", "kubectl everynode undo -n default --to-revision=1 --dry-run=server ads/agent"},
		`{"verb": "release", "node": "node-7"`:                            {"on node-7 released", "kubectl everynode pre-delete release -n default --dry-run=server pod/agent-node-7-6b8 ads/agent"},
		`{"verb": "release", "flags": {"all": "true"}`:                    {"on node-7 released", "kubectl everynode pre-delete release -n default --dry-run=server pod/agent-node-7-6b8 ads/agent"},
		`{"verb": "release", "node": "node-1"`:                            {"no pod on this node waits for a hook", ""},
		`{"verb": "release", "node": "--all"`:                             {"there is no such node", ""},
		`{"verb": "release"`:                                              {"a node is named for explain-node and release only", ""},
		`{"verb": "release", "flags": {"all": "true"}, "node": "node-7"`:  {"a node is named for explain-node and release only", ""},
		`{"verb": "canary"`:                                               {"canary takes 1 arguments", ""},
		`{"verb": "canary", "arguments": ["x"], "flags": {"off": "true"}`: {"canary takes 0 arguments", ""},
		`{"verb": "suspend"`:                                              {"no rollout policy applies to default/ads/agent", ""},
		`{"verb": "pre-delete"`:                                           {"does not offer the command", ""},
	} {
		var got outcome
		w.read(http.MethodPost, "/api/verb", body+of, &got)
		if said := got.Output + got.Error; !strings.Contains(said, want[0]) || want[1] != "" && got.Line != want[1] {
			t.Errorf("%s: %q with the line %q, want %q", body, said, got.Line, want)
		}
	}
}

// A confirmation releases the pods that were shown, and no other one that waits by then.
func TestReleasedIsWhatWasShown(t *testing.T) {
	w := hooked(t)
	w.cluster.HonourDryRun(t)
	const request = `{"verb": "release", "namespace": "default", "set": "ads/agent", "flags": `
	var tried, got outcome
	w.read(http.MethodPost, verbPath, request+`{"all": "true"}, "dryRun": true}`, &tried)
	if tried.Exact["pods"] != "agent-node-7-6b8" {
		t.Fatalf("tried: %+v", tried)
	}
	pods := w.cluster.Kubernetes.CoreV1().Pods("default")
	other, err := pods.Get(t.Context(), "agent-node-8-6b8", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	other.Labels["hold"], other.Labels[kruise.LifecycleState] = "yes", kruise.LifecyclePreparingDelete
	if _, err := pods.Update(t.Context(), other, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if w.read(http.MethodPost, verbPath, request+`{"all": "true"}}`, &got); !strings.Contains(got.Error, "does not name what was shown") {
		t.Errorf("a confirmation of anything: %+v", got)
	}
	got = outcome{}
	if w.read(http.MethodPost, verbPath, request+`{"all": "true", "pods": "agent-node-7-6b8"}}`, &got); !strings.Contains(got.Output, "on node-7 released") || strings.Contains(got.Output, "node-8") {
		t.Errorf("confirmed: %+v", got)
	}
}

// TestDetailsForEdits: the page begins its forms with what the set has.
func TestDetailsForEdits(t *testing.T) {
	w := hooked(t)
	d := part[details](t, w.page("/api/set"+setQuery, "details"), "details")
	if d.Selector != "zone=a" || d.Partition != "20%" || !d.Hook || !strings.Contains(d.PolicyText, "kind: RolloutPolicy\nmetadata:\n  name: agent\n") {
		t.Errorf("the details are %+v", d)
	}
	if got := selectorText(map[string]any{"matchExpressions": "x"}); got != "" {
		t.Errorf("a broken selector is %q", got)
	}
	if got := policies.Manifest(&resolver.Set{Source: dialects.Onlookers()[0].Source, Object: &unstructured.Unstructured{Object: map[string]any{}}}); !strings.Contains(got, "soak: 30m") {
		t.Errorf("a new policy is %s", got)
	}
}

// TestRightsForActions: a missing right has its reason for each verb that needs it, and for the policy of a plan.
func TestRightsForActions(t *testing.T) {
	w := hooked(t)
	w.cluster.Denied = true
	var missing map[string]string
	w.read(http.MethodGet, "/api/rights"+setQuery, "", &missing)
	for name, right := range map[string]string{
		"canary": `"patch" on "daemonsets.apps.kruise.io"`, "restart": `"patch" on "daemonsets.apps.kruise.io"`, "suspend": `"patch" on "rolloutpolicies.everynode.dev"`,
		"release": `"patch" on "pods"`, "right:change-policy": `"patch" on "rolloutpolicies.everynode.dev"`, "right:create-policy": `"create" on "rolloutpolicies.everynode.dev"`,
	} {
		if !strings.Contains(missing[name], right) {
			t.Errorf("%s is said to need %q, want %s", name, missing[name], right)
		}
	}
}

// TestPlanWithAPolicy: a policy in the form is planned for, and applied with the plan. Another text than the one of the plan is refused.
func TestPlanWithAPolicy(t *testing.T) {
	a := newToApply(t)
	text := strings.Replace(rolloutPolicy, `"count": 1`, `"count": 2`, 1)
	a.request = map[string]any{"verb": "plan", "namespace": "default", "set": "ads/agent", "flags": map[string]string{"policy": text, "selector": ""}}
	planned := a.post(t, "/api/verb")
	if planned.Error != "" || planned.Line != "kubectl everynode plan -n default --policy=policy.yaml --selector= ads/agent" {
		t.Fatalf("%s with the line %s", planned.Error, planned.Line)
	}
	var document map[string]any
	if err := json.Unmarshal(planned.Data, &document); err != nil {
		t.Fatal(err)
	}
	a.request["verb"], a.request["plan"], a.request["dryRun"] = "apply", document, true
	own := maps.Clone(a.request)
	for name, flags := range map[string]map[string]string{
		"another policy": {"policy": rolloutPolicy, "selector": ""}, "no policy": {"selector": ""}, "another edit": {"policy": text, "selector": "x=y"},
	} {
		a.request["flags"] = flags
		if got := a.post(t, applyPath); !strings.Contains(got.Error, "make it again") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	a.request = own
	got := a.post(t, applyPath)
	if got.Error != "" || !strings.Contains(got.Output, "rolloutpolicy/agents would be edited:\n  .spec.waves") || got.Line != "kubectl everynode apply -n default --with-policy --dry-run=server --plan=plan.json" {
		t.Errorf("%+v", got)
	}
	a.edit(t, policies.Resource(), "agents", func(u *unstructured.Unstructured) { u.SetGeneration(2) })
	if got := a.post(t, applyPath); len(got.Stale) != 1 || !strings.Contains(got.Stale[0], "rolloutpolicy/agents has been changed (generation 2, not 1)") {
		t.Errorf("after the policy has changed: %+v", got)
	}
}

// The line for a shell has no character that is not shown by its looks, and means the same: a shell is asked.
func TestQuote(t *testing.T) {
	for word, want := range map[string]string{
		"":                          `''`,
		"plain-1.0/x:y":             `plain-1.0/x:y`,
		"it's":                      `'it'\''s'`,
		"agent=x\x1b[2J\r:1":        `$'agent=x\033[2J\015:1'`,
		"a'b\\c\u202ed\n\u00850":    `$'a\'b\\c\342\200\256d\012\302\2050'`,
		"a b\\n":                    `'a b\n'`,
		"registry.example/ümlaut:1": `'registry.example/ümlaut:1'`,
	} {
		got := quote(word)
		if got != want {
			t.Errorf("%q is quoted as %s, want %s", word, got, want)
		}
		if bash, err := exec.LookPath("bash"); err == nil {
			if out, err := exec.CommandContext(t.Context(), bash, "-c", "printf %s "+got).Output(); err != nil || string(out) != word {
				t.Errorf("a shell reads %s as %q, %v; want %q", got, out, err, word)
			}
		}
	}
}
