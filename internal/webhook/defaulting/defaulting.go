// SPDX-License-Identifier: Apache-2.0

// Package defaulting sets the defaults of an Advanced DaemonSet. They are those of OpenKruise, which differ from those
// of apps/v1: maxUnavailable and maxSurge are set only if neither is given. So maxSurge: 1 alone means "create first".
//
// Rule: a given value is never changed. The pod template is not changed: its defaults come from a dry run on the API
// server (see internal/webhook).
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
	// SurgingMaxSurge and SurgingMaxUnavailable are the defaults for the type Surging of v1alpha1.
	SurgingMaxSurge       = 1
	SurgingMaxUnavailable = 0
)

// Default sets, in place, the defaults of a DaemonSet of any version. Values of the wrong type are left to validation.
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

// fill sets key if it has no value.
func fill(m map[string]any, key string, value any) {
	if m[key] == nil {
		m[key] = value
	}
}

// fillText is fill for a string, for which "" means no value.
func fillText(m map[string]any, key, value string) {
	if m[key] == "" {
		m[key] = value
	}
	fill(m, key, value)
}

// object returns the object at key, and creates it if it is absent; nil if the value is not an object.
func object(m map[string]any, key string) map[string]any {
	fill(m, key, map[string]any{})
	o, _ := m[key].(map[string]any)
	return o
}
