// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"testing"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/cli/live"
	"everynode.dev/everynode/internal/cli/policies"
	"everynode.dev/everynode/internal/cli/view"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialect"
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
