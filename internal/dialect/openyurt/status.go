// SPDX-License-Identifier: Apache-2.0

package openyurt

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"

	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/base"
)

// Degraded is the type of the condition of a DaemonSet that reports annotations that cannot be honoured. It exists only while there is such an annotation.
const Degraded appsv1.DaemonSetConditionType = "Degraded"

// ReasonIgnoredAnnotation reports that an annotation contradicts the specification, and is ignored as OpenYurt does.
const ReasonIgnoredAnnotation = "IgnoredAnnotation"

// ReasonDeprecatedAnnotation reports that an annotation has been renamed; the old name still works.
const ReasonDeprecatedAnnotation = "DeprecatedAnnotation"

// ReasonFailedCondition reports that the API server refuses a write of the condition PodNeedUpgrade of a pod.
const ReasonFailedCondition = "FailedPodCondition"

// MessageFailedCondition is the message of that event.
const MessageFailedCondition = "Error writing condition PodNeedUpgrade of pod %s: %v"

// StatusPatch returns the body of a strategic merge patch for the status subresource of a set that Digest has read, and whether there is
// anything to change. Of the conditions it touches none but Degraded.
func StatusPatch(w *dialect.Workload, r dialect.Report) ([]byte, bool) {
	more := map[string]any{}
	if change := degraded(w, r); change != nil {
		more["conditions"] = []any{change}
	}
	return base.StatusPatch(w, base.Status{Numbers: r.Numbers, ObservedGeneration: r.ObservedGeneration, CollisionCount: r.CollisionCount}, more)
}

// ExternalPatch is StatusPatch for a set that DigestExternal has read: its numbers are another controller's.
func ExternalPatch(w *dialect.Workload, r dialect.Report) ([]byte, bool) {
	change := degraded(w, r)
	if change == nil {
		return nil, false
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": w.UID},
		"status":   map[string]any{"conditions": []any{change}},
	})
	return patch, err == nil
}

// degraded is the change of the condition Degraded that is due; nil for none.
func degraded(w *dialect.Workload, r dialect.Report) map[string]any {
	i := slices.IndexFunc(w.Conditions, func(c appsv1.DaemonSetCondition) bool { return c.Type == Degraded })
	problems := slices.Concat(w.Problems, r.Problems)
	if w.Plain == nil || len(problems) == 0 {
		if i < 0 || !ours(w.Conditions[i].Reason) {
			return nil
		}
		return map[string]any{"$patch": "delete", "type": Degraded}
	}
	reason, message := describe(problems)
	change := map[string]any{"type": Degraded, "status": corev1.ConditionTrue, "reason": reason, "message": message}
	switch {
	case i < 0 || w.Conditions[i].Status != corev1.ConditionTrue:
		change["lastTransitionTime"] = metav1.NewTime(r.Now.UTC())
	case w.Conditions[i].Reason == reason && w.Conditions[i].Message == message:
		return nil
	}
	return change
}

// describe returns the reason of the worst problem, and a message about all problems.
func describe(problems []dialect.Problem) (reason, message string) {
	worst := max(0, slices.IndexFunc(problems, func(p dialect.Problem) bool { return p.Fatal }))
	sentences := make([]string, len(problems))
	for i, p := range problems {
		sentences[i] = p.Message
	}
	return problems[worst].Reason, strings.Join(sentences, " ")
}

// ours reports whether a condition Degraded with that reason was written here. One with another reason is from another controller, and stays.
func ours(reason string) bool {
	return slices.Contains([]string{
		base.ReasonInvalidAnnotation, base.ReasonInvalidSpec, base.ReasonIgnoredField, base.ReasonSelectingAll, ReasonIgnoredAnnotation, ReasonDeprecatedAnnotation,
		base.ReasonFailedPullJob, base.ReasonNoImagePulls,
	}, reason)
}
