// SPDX-License-Identifier: Apache-2.0

package revision_test

import (
	"encoding/json"
	"testing"

	"everynode.dev/everynode/internal/revision"
)

// TestDataOfOpenKruiseEphemeralVolume: types whose times are never left out have one more of them, in the metadata of a claim of an ephemeral volume. The
// bytes are those of k8s.io/api v0.30.10, made as OpenKruise makes them.
func TestDataOfOpenKruiseEphemeralVolume(t *testing.T) {
	const stored = `{"metadata":{"creationTimestamp":null,"labels":{"app":"a"}},"spec":{"containers":[{"image":"img:1","name":"c","resources":{}}],
		"volumes":[{"name":"s","ephemeral":{"volumeClaimTemplate":{"metadata":{"creationTimestamp":null},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}}}]}}`
	const want = `{"spec":{"template":{"$patch":"replace","metadata":{"creationTimestamp":null,"labels":{"app":"a"}},"spec":{"containers":[{"image":"img:1","name":"c","resources":{}}],` +
		`"volumes":[{"ephemeral":{"volumeClaimTemplate":{"metadata":{"creationTimestamp":null},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}},"name":"s"}]}}}}`
	var template map[string]any
	if err := json.Unmarshal([]byte(stored), &template); err != nil {
		t.Fatal(err)
	}
	got, err := revision.DataOfOpenKruise(template)
	if err != nil || string(got) != want {
		t.Errorf("error %v, got\n%s\nwant\n%s", err, got, want)
	}
}
