// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"testing"
	"time"

	"everynode.dev/everynode/api/openyurt"
	"everynode.dev/everynode/internal/rollout"
)

func TestOnlyOnDeleteIsForPolicies(t *testing.T) {
	object := func(strategy string) map[string]any {
		return map[string]any{
			"metadata": map[string]any{"namespace": "ns", "name": "ds", "uid": "u", "labels": map[string]any{"tier": "agent"}},
			"spec": map[string]any{
				"selector": map[string]any{"matchLabels": map[string]any{"app": "x"}}, "minReadySeconds": int64(5), "updateStrategy": map[string]any{"type": strategy},
				"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "x"}}, "spec": map[string]any{"containers": []any{}}},
			},
		}
	}
	w := Digest(object("OnDelete"))
	if w.ByPolicy == nil || w.ByPolicy.Strategy != rollout.RollingUpdate || !w.ByPolicy.ExternalController || w.ByPolicy.MaxUnavailable.Value != 1 || w.ByPolicy.MinReady != 5*time.Second {
		t.Errorf("by a policy %+v", w.ByPolicy)
	}
	if !w.Set.ExternalController || w.Set.Strategy != rollout.OnDelete || w.Labels["tier"] != "agent" {
		t.Errorf("without a policy %+v, labels %v", w.Set, w.Labels)
	}
	if w := Digest(object("RollingUpdate")); w.ByPolicy != nil || w.Set.Strategy != rollout.OnDelete {
		t.Errorf("a policy would update a set that the other controller rolls: %+v", w.ByPolicy)
	}
	for strategy, updates := range map[string]bool{"OTA": false, "advancedrollingupdate": false, "other": true} {
		annotated := object("OnDelete")
		annotated["metadata"].(map[string]any)["annotations"] = map[string]any{openyurt.UpdateStrategy: strategy} //nolint:forcetypeassert // made above
		if w := Digest(annotated); (w.ByPolicy != nil) != updates || w.ForOpenYurt == updates {
			t.Errorf("%s: for OpenYurt %t, by a policy %+v", strategy, w.ForOpenYurt, w.ByPolicy)
		}
	}
	broken := object("OnDelete")
	broken["spec"].(map[string]any)["selector"] = "nonsense" //nolint:forcetypeassert // made above
	if w := Digest(broken); w.ByPolicy != nil {
		t.Error("a policy would update a set that cannot be read")
	}
}
