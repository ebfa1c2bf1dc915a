// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"testing"

	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/cli/live"
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
