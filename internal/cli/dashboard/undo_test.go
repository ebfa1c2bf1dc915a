// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Two people who have both been shown that undo returns to revision 1, and both confirm it, end there: the second undo does not bring back the bad revision.
func TestTwoPeopleUndo(t *testing.T) {
	cluster := zoned(t, roll())
	cluster.HonourDryRun(t)
	a := &toApply{window: open(t, cluster), request: map[string]any{"verb": "undo", "namespace": "default", "set": "ads/agent", "dryRun": true}}
	first, second := a.post(t, verbPath), a.post(t, verbPath)
	if first.Error != "" || first.Output != second.Output || first.Exact["to-revision"] != "1" || !strings.Contains(first.Line, " --to-revision=1 ") {
		t.Fatalf("tried: %+v, %+v", first, second)
	}
	a.request["dryRun"] = false
	if got := a.post(t, verbPath); !strings.Contains(got.Error, "does not name what was shown") {
		t.Errorf("a confirmation of anything: %+v", got)
	}
	a.request["flags"] = first.Exact // what the page sends with the confirmation
	a.post(t, verbPath)
	confirmed := a.post(t, verbPath)
	object, err := cluster.Dynamic.Tracker().Get(schema.GroupVersionResource{Group: "apps.kruise.io", Version: "v1beta1", Resource: "daemonsets"}, "default", "agent")
	if err != nil {
		t.Fatal(err)
	}
	containers, _, _ := unstructured.NestedSlice(object.(*unstructured.Unstructured).Object, "spec", "template", "spec", "containers")
	if image := containers[0].(map[string]any)["image"]; image != "registry.example/agent:1" {
		t.Errorf("shown was %q, but after both confirmations the image is %v: %q", second.Output, image, confirmed.Output)
	}
}
