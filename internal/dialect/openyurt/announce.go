// SPDX-License-Identifier: Apache-2.0

package openyurt

import (
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"

	"everynode.dev/everynode/api/openyurt"
	"everynode.dev/everynode/internal/dialect"
)

// Facts reads what the dialect needs to know of a pod; it is a dialect.FactsFunc. Only pods of DaemonSets of Kubernetes' own that say
// whether there is a newer revision have any.
func Facts(p *corev1.Pod) *dialect.PodFacts {
	owner := metav1.GetControllerOfNoCopy(p)
	if owner == nil || owner.Kind != "DaemonSet" || !strings.HasPrefix(owner.APIVersion, appsv1.GroupName+"/") {
		return nil
	}
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == openyurt.PodNeedUpgrade {
			return &dialect.PodFacts{Announced: announced(c)}
		}
	}
	return nil
}

// announced returns the content of the condition. If the message names no revision, the hash is empty, so that the condition is written again.
func announced(c *corev1.PodCondition) dialect.Announced {
	hash, _ := openyurt.ParseRevision(c.Message)
	old := c.Status == corev1.ConditionTrue
	return dialect.Announced{Said: old || c.Status == corev1.ConditionFalse, Old: old, Hash: hash}
}

// Announce records in a pod whether there is a newer revision, or removes that record. It touches no other condition; the time of the condition
// changes only with its status.
func Announce(a dialect.Announcement, now time.Time) dialect.Edit {
	condition := map[string]any{"type": openyurt.PodNeedUpgrade}
	switch {
	case a.Withdraw:
		condition["$patch"] = "delete"
	default:
		condition["status"], condition["message"] = corev1.ConditionFalse, openyurt.FormatRevision(a.Hash)
		if a.Old {
			condition["status"] = corev1.ConditionTrue
		}
		if a.Turned {
			condition["lastTransitionTime"] = metav1.NewTime(now.UTC())
		}
	}
	// Strings and times can always be encoded.
	patch, _ := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": a.UID},
		"status":   map[string]any{"conditions": []any{condition}},
	})
	return dialect.Edit{Patch: patch, Of: dialect.Status}
}
