// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/agent/pull"
)

// FuzzNodeImage: whatever stands in a NodeImage, the agent knows each image that is wanted once, and its status says of each how far it is.
// What the status says is written once, and read by the next agent as it was meant.
func FuzzNodeImage(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"spec":{"images":{"nginx":{"tags":[{"tag":"1"},{"tag":"1"},{"tag":""}]},"":{"tags":[{"tag":"a b"}]}}}}`,
		`{"spec":{"images":{"r.io/a":{"pullSecrets":[{"namespace":"x","name":"y"}],"tags":[{"tag":"v1","version":-1,"imagePullPolicy":"Always","pullPolicy":{"timeoutSeconds":-1,"backoffLimit":2147483647,"activeDeadlineSeconds":9223372036854775807}}]}}}}`,
		`{"spec":{"images":{"r.io/a":{"tags":[{"tag":"v1"}]}}},"status":{"desired":-4,"imageStatuses":{"r.io/a":{"tags":[{"tag":"v1","phase":"Pulling","progress":-3},{"tag":"v1","phase":"Succeeded","completionTime":"2026-01-01T00:00:00Z"}]}}}}`,
		`{"status":{"imageStatuses":{"r.io/a":{"tags":[{"tag":"v1","phase":"x","message":"try 99999999999999999999 of 3 failed"}]}},"firstSyncStatus":{"status":"x"}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		var image v1beta1.NodeImage
		if json.Unmarshal(input, &image) != nil {
			t.Skip("no NodeImage")
		}
		wants, specs := wantsOf(image.Spec)
		if len(wants) != len(specs) {
			t.Errorf("%d wants, %d of which are known", len(wants), len(specs))
		}
		plan := pull.Decide(pull.Snapshot{
			Now: time.Unix(1e9, 0).UTC(), Limits: pull.Limits{Pulls: 2}, Wants: wants, Memory: pull.Memory{States: statesOf(&image.Status)},
		})
		if len(plan.Memory.States) != len(wants) {
			t.Errorf("%d wants, and what is known of %d", len(wants), len(plan.Memory.States))
		}
		status := statusOf(plan.Memory.States, &image.Status)
		if n := status.Succeeded + status.Failed + status.Pulling + status.Waiting; n != status.Desired || int(n) != len(wants) {
			t.Errorf("%d wants, and the status counts %+v", len(wants), status)
		}
		checkWritten(t, &image.Status, status)
	})
}

// checkWritten writes a status over another, as an API server does, and reads it again.
func checkWritten(t *testing.T, before, after *v1beta1.NodeImageStatus) {
	t.Helper()
	was, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": "u"}, "status": before})
	if err != nil {
		t.Fatal(err)
	}
	patch, err := patchOf(types.UID("u"), before, after)
	if err != nil {
		t.Fatal(err)
	}
	if patch == nil {
		patch = []byte("{}")
	}
	is, err := jsonpatch.MergePatch(was, patch)
	if err != nil {
		t.Fatalf("%s cannot be patched with %s: %v", was, patch, err)
	}
	var written struct{ Status v1beta1.NodeImageStatus }
	if err := json.Unmarshal(is, &written); err != nil {
		t.Fatal(err)
	}
	if again, err := patchOf(types.UID("u"), &written.Status, after); err != nil || again != nil {
		t.Errorf("what was written has to be written once more: %s, %v", again, err)
	}
	if then := statusOf(statesOf(&written.Status), &written.Status); !reflect.DeepEqual(then.ImageStatuses == nil, written.Status.ImageStatuses == nil) || then.Desired != written.Status.Desired {
		t.Errorf("the next agent reads %+v from %s", then, is)
	}
}
