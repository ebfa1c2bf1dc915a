// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/internal/cli/policies"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// A user is shown that resume resumes the set. If another user suspends its rollout policy before the confirmation, that stays suspended: it was not shown.
func TestResumedIsWhatWasShown(t *testing.T) {
	cluster := zoned(t, roll())
	cluster.HonourDryRun(t)
	if err := cluster.Dynamic.Tracker().Create(policies.Resource(), fakecluster.Object(t, rolloutPolicy), "default"); err != nil {
		t.Fatal(err)
	}
	a := &toApply{window: open(t, cluster), request: map[string]any{"verb": "resume", "namespace": "default", "set": "ads/agent", "dryRun": true}}
	sets := schema.GroupVersionResource{Group: "apps.kruise.io", Version: "v1beta1", Resource: "daemonsets"}
	set := func(resource schema.GroupVersionResource, name string, value bool, path ...string) {
		t.Helper()
		a.edit(t, resource, name, func(u *unstructured.Unstructured) {
			if err := unstructured.SetNestedField(u.Object, value, path...); err != nil {
				t.Fatal(err)
			}
		})
	}
	is := func(resource schema.GroupVersionResource, name string, path ...string) bool {
		t.Helper()
		object, err := cluster.Dynamic.Tracker().Get(resource, "default", name)
		if err != nil {
			t.Fatal(err)
		}
		value, _, _ := unstructured.NestedBool(object.(*unstructured.Unstructured).Object, path...)
		return value
	}
	paused, suspended := []string{"spec", "updateStrategy", "rollingUpdate", "paused"}, []string{"spec", "suspend"}
	set(sets, "agent", true, paused...)
	tried := a.post(t, verbPath)
	if tried.Error != "" || !strings.Contains(tried.Output, "agent resumed") || strings.Contains(tried.Output, "agents") || tried.Line != "kubectl everynode resume -n default --dry-run=server ads/agent" {
		t.Fatalf("tried: %+v", tried)
	}
	set(policies.Resource(), "agents", true, suspended...)
	a.request["dryRun"] = false
	if got := a.post(t, verbPath); !strings.Contains(got.Error, "does not name what was shown") {
		t.Errorf("a confirmation of anything: %+v", got)
	}
	a.request["flags"] = tried.Exact // what the page sends with the confirmation
	got := a.post(t, verbPath)
	if !is(policies.Resource(), "agents", suspended...) || !is(sets, "agent", paused...) || !strings.Contains(got.Error, "ads/agent, rolloutpolicy/agents") {
		t.Errorf("shown was %q, and done was %+v", tried.Output, got)
	}
	a.request["flags"], a.request["dryRun"] = nil, true
	tried = a.post(t, verbPath)
	a.request["flags"], a.request["dryRun"] = tried.Exact, false
	if got = a.post(t, verbPath); got.Error != "" || is(policies.Resource(), "agents", suspended...) || is(sets, "agent", paused...) || got.Line != "kubectl everynode resume -n default ads/agent" {
		t.Errorf("confirmed: %+v", got)
	}
}

// The policy that is suspended is the one that was shown, and not another one that applies by then.
func TestSuspendedIsWhatWasShown(t *testing.T) {
	cluster := zoned(t, roll())
	cluster.HonourDryRun(t)
	if err := cluster.Dynamic.Tracker().Create(policies.Resource(), fakecluster.Object(t, rolloutPolicy), "default"); err != nil {
		t.Fatal(err)
	}
	a := &toApply{window: open(t, cluster), request: map[string]any{"verb": "suspend", "namespace": "default", "set": "ads/agent", "dryRun": true}}
	tried := a.post(t, verbPath)
	if err := cluster.Dynamic.Tracker().Delete(policies.Resource(), "default", "agents"); err != nil {
		t.Fatal(err)
	}
	other := fakecluster.Object(t, strings.Replace(rolloutPolicy, `"agents"`, `"others"`, 1))
	if err := cluster.Dynamic.Tracker().Create(policies.Resource(), other, "default"); err != nil {
		t.Fatal(err)
	}
	a.request["flags"], a.request["dryRun"] = tried.Exact, false
	if got := a.post(t, verbPath); !strings.Contains(got.Error, "rolloutpolicy/others") || got.Output != "" {
		t.Errorf("shown was %q, and done was %+v", tried.Output, got)
	}
}
