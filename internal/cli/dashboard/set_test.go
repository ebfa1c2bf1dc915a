// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/cli/live"
	"everynode.dev/everynode/internal/cli/policies"
	"everynode.dev/everynode/internal/cli/view"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialect"
	rules "everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// A revision that is there in two forms, for another controller, is one row, as in kubectl everynode history.
func TestARevisionInTwoFormsIsOneRow(t *testing.T) {
	data := []byte(`{"spec":{"template":{"$patch":"replace","metadata":{},"spec":{"containers":[{"name":"c","image":"img:v1"}]}}}}`)
	h := clustercache.Resolve(&dialect.Workload{}, []clustercache.Revision{
		{Name: "agent-1", Hash: "1", Number: 1, Data: data}, {Name: "agent-1-kubernetes", Hash: "1", Number: 1, Data: data},
	})
	rows := revisionRows(&inspect.Evaluation{View: live.View{History: h}}, &view.Model{})
	if len(rows) != 1 || rows[0].Name != "agent-1" || len(rows[0].Images) != 1 || rows[0].Images[0] != "img:v1" {
		t.Errorf("rows %+v", rows)
	}
}

// A mark of a failure is one only if the status of the policy reports that: others than the manager can write marks.
func TestAMarkThatNoStatusConfirms(t *testing.T) {
	data := []byte(`{"spec":{"template":{"$patch":"replace","metadata":{},"spec":{"containers":[{"name":"c","image":"img:v1"}]}}}}`)
	h := clustercache.Resolve(&dialect.Workload{}, []clustercache.Revision{
		{Name: "agent-1", Hash: "1", Number: 1, Data: data, Failed: &everynode.Failure{Number: 1, Message: "by a mark"}},
	})
	of := []*policies.Policy{{Typed: &v1alpha1.RolloutPolicy{}}}
	for name, test := range map[string]struct {
		g              inspect.Governance
		failed, marked string
	}{
		"no policy":      {inspect.Governance{}, "", "by a mark"},
		"no failure":     {inspect.Governance{Policies: of, Stored: &v1alpha1.SetStatus{TargetRevision: "agent-1"}}, "", "by a mark"},
		"of another one": {inspect.Governance{Policies: of, Stored: &v1alpha1.SetStatus{TargetRevision: "agent-2", Failure: &v1alpha1.RolloutFailure{Message: "in the status"}}}, "", "by a mark"},
		"confirmed":      {inspect.Governance{Policies: of, Stored: &v1alpha1.SetStatus{TargetRevision: "agent-1", Failure: &v1alpha1.RolloutFailure{Message: "in the status"}}}, "in the status", ""},
	} {
		rows := revisionRows(&inspect.Evaluation{View: live.View{History: h}, Governance: test.g}, &view.Model{})
		if rows[0].Failed != test.failed || rows[0].Marked != test.marked {
			t.Errorf("%s: %+v", name, rows[0])
		}
	}
}

// A revision that was rejected is still marked after the set has returned to another one: it is not offered as one like the others.
func TestARevisionThatWasRejectedEarlier(t *testing.T) {
	data := []byte(`{"spec":{"template":{"$patch":"replace","metadata":{},"spec":{"containers":[{"name":"c","image":"img:v1"}]}}}}`)
	h := clustercache.Resolve(&dialect.Workload{}, []clustercache.Revision{{Name: "agent-1", Hash: "1", Number: 1, Data: data}})
	no := v1alpha1.RolloutApproval{ObjectMeta: metav1.ObjectMeta{Name: "no"}, Spec: v1alpha1.RolloutApprovalSpec{Set: "agent", Revision: "agent-1", Decision: v1alpha1.Reject, By: "jane", Reason: "It loses packets."}}
	g := inspect.Governance{Set: rules.Set{Name: "agent"}, Approvals: []v1alpha1.RolloutApproval{no}}
	if rows := revisionRows(&inspect.Evaluation{View: live.View{History: h}, Governance: g}, &view.Model{}); rows[0].Rejected != "rejected by jane (no): It loses packets." {
		t.Errorf("%+v", rows[0])
	}
}

// The conditions of the rollout policy are among those of the set: a DaemonSet of apps/v1 has none of its own.
func TestConditionsOfThePolicy(t *testing.T) {
	policy := suspended(t, "null")
	if err := unstructured.SetNestedSlice(policy.Object, []any{map[string]any{
		"type": "Stalled", "status": "True", "reason": "Invalid", "message": "It cannot be followed.", "lastTransitionTime": "2026-03-01T11:00:00Z",
	}}, "status", "conditions"); err != nil {
		t.Fatal(err)
	}
	objects := fakecluster.Roll{Name: "agent", Advanced: true, Letters: "uo"}.Objects(t)
	page := open(t, fakecluster.New(t, append(objects, policy)...)).page("/api/set"+setQuery, "details")
	want := condition{"Stalled", "True", "Invalid", "It cannot be followed.", "2026-03-01T11:00:00Z", "rolloutpolicy/waves"}
	if got := part[details](t, page, "details").Conditions; len(got) != 1 || got[0] != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// The page shows the budget in the words of kubectl everynode status, also if more nodes use it than it has.
func TestTheBudgetOfThePage(t *testing.T) {
	var page message
	open(t, fakecluster.New(t, roll().Objects(t)...)).read(http.MethodGet, "/api/set"+setQuery, "", &page)
	if got := part[head](t, page, "head"); got.BudgetText != "3 nodes without an available pod; at most 2 may be" || !got.OverBudget {
		t.Errorf("the budget: %q, exceeded: %t", got.BudgetText, got.OverBudget)
	}
}

// The page reports that a set has more events than are shown.
func TestTheEventsOfThePage(t *testing.T) {
	objects := roll().Objects(t)
	for i := range mostEvents + 1 {
		objects = append(objects, &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("event-", i)}, InvolvedObject: corev1.ObjectReference{UID: roll().UID()}, Reason: "Test",
		})
	}
	page := open(t, fakecluster.New(t, objects...)).page("/api/set"+setQuery, "details")
	if got := part[details](t, page, "details"); len(got.Events) != mostEvents || got.EventsSay != "The last 50 of 51." {
		t.Errorf("%d events: %q", len(got.Events), got.EventsSay)
	}
}
