// SPDX-License-Identifier: Apache-2.0

package defaulting

import (
	"encoding/json"
	"testing"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

func TestDefault(t *testing.T) {
	for name, e := range map[string]struct{ spec, want string }{
		"empty": {`{}`,
			`{"burstReplicas":250,"revisionHistoryLimit":10,"updateStrategy":{"rollingUpdate":{"maxSurge":0,"maxUnavailable":1,"rollingUpdateType":"Standard"},"type":"RollingUpdate"}}`},
		"empty strings": {`{"updateStrategy":{"type":"","rollingUpdate":{"rollingUpdateType":""}}}`,
			`{"burstReplicas":250,"revisionHistoryLimit":10,"updateStrategy":{"rollingUpdate":{"maxSurge":0,"maxUnavailable":1,"rollingUpdateType":"Standard"},"type":"RollingUpdate"}}`},
		"only maxSurge": {`{"updateStrategy":{"rollingUpdate":{"maxSurge":1}}}`,
			`{"burstReplicas":250,"revisionHistoryLimit":10,"updateStrategy":{"rollingUpdate":{"maxSurge":1,"rollingUpdateType":"Standard"},"type":"RollingUpdate"}}`},
		"only maxUnavailable": {`{"updateStrategy":{"rollingUpdate":{"maxUnavailable":"20%"}}}`,
			`{"burstReplicas":250,"revisionHistoryLimit":10,"updateStrategy":{"rollingUpdate":{"maxUnavailable":"20%","rollingUpdateType":"Standard"},"type":"RollingUpdate"}}`},
		"surging": {`{"updateStrategy":{"rollingUpdate":{"rollingUpdateType":"Surging"}}}`,
			`{"burstReplicas":250,"revisionHistoryLimit":10,"updateStrategy":{"rollingUpdate":{"maxSurge":1,"maxUnavailable":0,"rollingUpdateType":"Surging"},"type":"RollingUpdate"}}`},
		"on delete": {`{"updateStrategy":{"type":"OnDelete"}}`,
			`{"burstReplicas":250,"revisionHistoryLimit":10,"updateStrategy":{"type":"OnDelete"}}`},
		"everything set": {`{"burstReplicas":0,"revisionHistoryLimit":0,"updateStrategy":{"type":"Other","rollingUpdate":{}}}`,
			`{"burstReplicas":0,"revisionHistoryLimit":0,"updateStrategy":{"rollingUpdate":{},"type":"Other"}}`},
		"of another shape": {`{"updateStrategy":[]}`, `{"burstReplicas":250,"revisionHistoryLimit":10,"updateStrategy":[]}`},
	} {
		t.Run(name, func(t *testing.T) {
			obj := map[string]any{}
			if err := utiljson.Unmarshal([]byte(`{"spec":`+e.spec+`}`), &obj); err != nil {
				t.Fatal(err)
			}
			Default(obj)
			got, err := json.Marshal(obj["spec"])
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != e.want {
				t.Errorf("got  %s\nwant %s", got, e.want)
			}
		})
	}
}

func TestDefaultLeavesAlone(t *testing.T) {
	obj := map[string]any{"spec": "x"}
	Default(obj)
	if obj["spec"] != "x" {
		t.Errorf("got %v", obj)
	}
}
