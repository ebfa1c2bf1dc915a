// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/testing/fakecluster"
	"everynode.dev/everynode/test/chrome"
)

// TestThePanelFollowsThePolicy: when another window is the next one, the panel of a node that waits for it does not go on with the earlier time. The node itself has not changed.
func TestThePanelFollowsThePolicy(t *testing.T) {
	b := browse(t)
	cluster := fakecluster.New(t, fakecluster.Roll{Name: set, Advanced: true, Letters: "uuo"}.Objects(t)...)
	begun := time.Now()
	cluster.Options.Now = func() time.Time { return fakecluster.Now().Add(time.Since(begun)) } // policies are read again every second
	const window, reported = `{"name": "canary", "nodes": {"count": 2}}], "windows": [{"schedule": "0 8 * * *", "duration": "1h"}], "freezes": [`, `"phase": "WaitingForWindow", "wave": "remaining",
		"next": {"action": "OpenWindow", "at": "2030-03-02T08:00:00Z"}, "blocking": [{"reason": "Window", "message": "No window is open."}], "waves": [
		{"name": "canary", "nodes": 2, "updated": 2, "available": 2, "phase": "Passed"}, {"name": "remaining", "nodes": 1, "updated": 0, "available": 0, "phase": "Pending"}]`
	governed(t, cluster, window+`{"from": "2029-01-01T00:00:00Z", "to": "2029-01-02T00:00:00Z"}`, reported)
	address := serve(t.Context(), t, cluster)
	b.Does("a node", firstSet(address), chrome.Press(chrome.Find(".cell[data-node=node-3]")),
		chrome.Until(`document.querySelector(".panel [data-next]")?.ariaBusy === "false"`), chrome.Until(shows(".panel [data-next]", "08:00")))
	policies := cluster.Dynamic.Resource(v1alpha1.GroupVersion().WithResource(v1alpha1.ResourcePolicies)).Namespace("default")
	list, err := policies.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := list.Items[0].MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	later := fakecluster.Object(t, strings.NewReplacer("2030-03-02T08:00:00Z", "2030-03-02T22:00:00Z", "0 8 * * *", "0 22 * * *").Replace(string(text)))
	if _, err := policies.Update(t.Context(), later, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.Does("another window", chrome.Until(shows(".summary .next", "22:00")), chrome.Until(shows(".panel [data-next]", "22:00")))
	b.Quiet()
}
