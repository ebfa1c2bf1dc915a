// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// wantReasons checks why a node waits: on the page of the set, in its cell, on the page of the node, and in the list.
func wantReasons(t *testing.T, w *window, node, want string) {
	t.Helper()
	var list, set, of message
	w.read(http.MethodGet, "/api/sets", "", &list)
	w.read(http.MethodGet, "/api/set"+setQuery, "", &set)
	w.read(http.MethodGet, "/api/node?name="+node, "", &of)
	if waits := part[head](t, set, "head").Waits; len(waits) != 1 || waits[0].Reason != want {
		t.Errorf("the page: %+v, want %q", waits, want)
	}
	cells := items[cell](t, set)
	if i := slices.IndexFunc(cells, func(c cell) bool { return c.Node == node }); i < 0 || cells[i].Reason != want {
		t.Errorf("the cells: %+v, want %q", cells, want)
	}
	if rows := items[nodeRow](t, of); len(rows) != 1 || rows[0].Reason != want {
		t.Errorf("the node: %+v, want %q", rows, want)
	}
	if rows := items[row](t, list); rows[0].WaitsReason != want {
		t.Errorf("the list: %q, want %q", rows[0].WaitsReason, want)
	}
}

// Why nodes wait is what kubectl everynode status prints, also where the rollout policies show more than the verdict.
func TestReasonsOfNodesAfterThePolicyWasDeleted(t *testing.T) {
	objects := fakecluster.Roll{Name: "agent", Advanced: true, Letters: "uo"}.Objects(t)
	for _, object := range objects {
		if r, is := object.(*appsv1.ControllerRevision); is && r.Revision == 1 {
			r.Annotations = map[string]string{everynode.Committed: everynode.FormatCommitted(1, string(r.UID))}
		}
	}
	wantReasons(t, open(t, fakecluster.New(t, objects...)), "node-2",
		"the pod is old; the rollout policy that governed the daemon set was deleted in the middle of a rollout, so no update starts")
}

// While no manager runs, the revision of a new template is not written. That is the reason why nodes wait, and not that the policy was deleted.
func TestReasonsOfNodesBeforeAManagerHasSeenTheTemplate(t *testing.T) {
	objects := slices.DeleteFunc(fakecluster.Roll{Name: "agent", Advanced: true, Letters: "oo"}.Objects(t), func(o runtime.Object) bool {
		r, is := o.(*appsv1.ControllerRevision)
		return is && r.Revision == 2
	})
	for _, object := range objects {
		if r, is := object.(*appsv1.ControllerRevision); is {
			r.Annotations = map[string]string{everynode.Committed: everynode.FormatCommitted(1, string(r.UID))}
		}
	}
	policy := suspended(t, "null")
	unstructured.RemoveNestedField(policy.Object, "spec", "suspend")
	unstructured.RemoveNestedField(policy.Object, "status")
	w := open(t, fakecluster.New(t, append(objects, policy)...))
	const why = "no manager has begun this rollout yet, so no update starts"
	wantReasons(t, w, "node-2", "the pod is old; "+why)
	var page message
	w.read(http.MethodGet, "/api/set"+setQuery, "", &page)
	if next := part[head](t, page, "head").Next; !strings.Contains(next, why) {
		t.Errorf("next: %q, want %q", next, why)
	}
}
