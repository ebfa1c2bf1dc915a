// SPDX-License-Identifier: Apache-2.0

package openyurt_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/base"
	"everynode.dev/everynode/internal/dialect/openyurt"
)

// TestImagesThatCannotBePulledAhead: what shows only now stands in the condition, and leaves it.
func TestImagesThatCannotBePulledAhead(t *testing.T) {
	w := openyurt.Digest(map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{"apps.openyurt.io/update-strategy": "AdvancedRollingUpdate"}},
		"spec": map[string]any{
			"updateStrategy": map[string]any{"type": "OnDelete"},
			"selector":       map[string]any{"matchLabels": map[string]any{"a": "b"}},
			"template":       map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}, "spec": map[string]any{}},
		},
	})
	for _, reason := range []string{base.ReasonFailedPullJob, base.ReasonNoImagePulls, base.ReasonIgnoredField} {
		patch, changed := openyurt.ExternalPatch(&w, dialect.Report{Problems: []dialect.Problem{{Reason: reason, Message: "Do this."}}})
		if !changed || !strings.Contains(string(patch), `"reason":"`+reason+`"`) || !strings.Contains(string(patch), "Do this.") {
			t.Errorf("%s: %s", reason, patch)
		}
		after := w
		after.Conditions = []appsv1.DaemonSetCondition{{Type: openyurt.Degraded, Status: corev1.ConditionTrue, Reason: reason, Message: "Do this."}}
		if patch, _ = openyurt.ExternalPatch(&after, dialect.Report{}); !strings.Contains(string(patch), `"$patch":"delete"`) {
			t.Errorf("%s stays: %s", reason, patch)
		}
	}
}
