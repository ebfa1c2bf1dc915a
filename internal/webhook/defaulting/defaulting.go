// SPDX-License-Identifier: Apache-2.0

// Package defaulting fills in the defaults of an Advanced DaemonSet: those of OpenKruise, which differ from those of
// apps/v1 in that maxUnavailable and maxSurge are filled in only when neither is set. So maxSurge: 1 alone is enough to say
// "create first".
//
// Rule: a value that is there is never changed, and only what has no value gets one. The pod template is not looked at: its
// defaults are those of the API server, which is asked for them (see internal/webhook).
package defaulting

import (
	appsv1 "k8s.io/api/apps/v1"

	"everynode.dev/everynode/api/kruise/v1alpha1"
	"everynode.dev/everynode/api/kruise/v1beta1"
)

// The defaults.
const (
	BurstReplicas        = 250
	RevisionHistoryLimit = 10
	MaxUnavailable       = 1
	MaxSurge             = 0
	// SurgingMaxSurge and SurgingMaxUnavailable are those of the type Surging of v1alpha1.
	SurgingMaxSurge       = 1
	SurgingMaxUnavailable = 0
)

// Default fills in, in place, the defaults of a DaemonSet of any version. What is not of the right shape is left for
// validation to refuse.
func Default(obj map[string]any) {
	spec, ok := obj["spec"].(map[string]any)
	if !ok {
		return
	}
	fill(spec, "burstReplicas", int64(BurstReplicas))
	fill(spec, "revisionHistoryLimit", int64(RevisionHistoryLimit))
	if update := object(spec, "updateStrategy"); update != nil {
		strategy(update)
	}
}

func strategy(update map[string]any) {
	fillText(update, "type", string(appsv1.RollingUpdateDaemonSetStrategyType))
	if update["type"] != string(appsv1.RollingUpdateDaemonSetStrategyType) {
		return
	}
	rolling := object(update, "rollingUpdate")
	if rolling == nil {
		return
	}
	fillText(rolling, "rollingUpdateType", string(v1beta1.StandardRollingUpdateType))
	if rolling["rollingUpdateType"] == string(v1alpha1.DeprecatedSurgingRollingUpdateType) {
		fill(rolling, "maxSurge", int64(SurgingMaxSurge))
		fill(rolling, "maxUnavailable", int64(SurgingMaxUnavailable))
	}
	if rolling["maxUnavailable"] == nil && rolling["maxSurge"] == nil {
		rolling["maxUnavailable"] = int64(MaxUnavailable)
		rolling["maxSurge"] = int64(MaxSurge)
	}
}

// fill gives key a value if it has none.
func fill(m map[string]any, key string, value any) {
	if m[key] == nil {
		m[key] = value
	}
}

// fillText is fill for a string, of which "" is none.
func fillText(m map[string]any, key, value string) {
	if m[key] == "" {
		m[key] = value
	}
	fill(m, key, value)
}

// object is the object at key, made if there is none; nil if there is something else.
func object(m map[string]any, key string) map[string]any {
	fill(m, key, map[string]any{})
	o, _ := m[key].(map[string]any)
	return o
}
