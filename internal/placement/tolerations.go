// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
)

// automatic lists the taints that every daemon pod tolerates, in the order in which the native controller adds them.
// Daemon pods must run before a node is ready, and must continue to run when a node has a problem, because some of them
// repair nodes.
func automatic(hostNetwork bool) []corev1.Toleration {
	list := []corev1.Toleration{
		exists(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute),
		exists(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute),
		exists(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule),
		exists(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule),
		exists(corev1.TaintNodePIDPressure, corev1.TaintEffectNoSchedule),
		exists(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule),
	}
	if hostNetwork {
		// A pod with host networking does not need the pod network; it may be the pod that sets it up.
		list = append(list, exists(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule))
	}
	return list
}

func exists(key string, effect corev1.TaintEffect) corev1.Toleration {
	return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect}
}

// withAutomatic merges the automatic tolerations into those of a template. own and undecoded describe the same list. If
// the template already has an automatic toleration (same key, operator, value and effect), it keeps its place but loses
// its tolerationSeconds, because a daemon pod tolerates these taints forever. For example, a template with
//
//	not-ready:NoExecute for 300 s, gpu:NoSchedule
//
// produces pods with not-ready:NoExecute without a limit, gpu:NoSchedule, unreachable:NoExecute,
// disk-pressure:NoSchedule, …
func withAutomatic(own []corev1.Toleration, undecoded []any, hostNetwork bool) ([]corev1.Toleration, []any) {
	typed := append([]corev1.Toleration(nil), own...)
	raw := append([]any(nil), undecoded...)
	for _, add := range automatic(hostNetwork) {
		found := false
		for i := range typed {
			if typed[i].MatchToleration(&add) {
				found = true
				typed[i].TolerationSeconds = nil
				raw[i] = withoutSeconds(raw[i])
			}
		}
		if !found {
			typed = append(typed, add)
			raw = append(raw, map[string]any{"key": add.Key, "operator": string(add.Operator), "effect": string(add.Effect)})
		}
	}
	return typed, raw
}

// withoutSeconds returns a copy of the undecoded toleration without tolerationSeconds.
func withoutSeconds(toleration any) any {
	m, ok := toleration.(map[string]any)
	if !ok {
		return toleration
	}
	if _, limited := m["tolerationSeconds"]; !limited {
		return m
	}
	m = maps.Clone(m)
	delete(m, "tolerationSeconds")
	return m
}
