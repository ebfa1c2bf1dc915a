// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	api "everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/openyurt"
)

// zoneLabel is what selectors of updates look at.
const zoneLabel = "zone"

func isKruise(set *unstructured.Unstructured) bool {
	return strings.HasPrefix(set.GetAPIVersion(), api.Group)
}

// isEdge is whether annotations of OpenYurt say how a set is updated.
func isEdge(set *unstructured.Unstructured) bool {
	return set.GetAnnotations()[openyurt.UpdateStrategy] != ""
}

// byHand is whether old pods stay until somebody deletes them.
func byHand(set *unstructured.Unstructured) bool {
	kind, _, _ := unstructured.NestedString(set.Object, "spec", "updateStrategy", "type")
	return kind == "OnDelete" && !isAlongside(set) && set.GetAnnotations()[openyurt.UpdateStrategy] != string(openyurt.AdvancedRollingUpdate)
}

// rollingOf is spec.updateStrategy.rollingUpdate.
func rollingOf(set *unstructured.Unstructured) map[string]any {
	rolling, _, _ := unstructured.NestedMap(set.Object, "spec", "updateStrategy", "rollingUpdate")
	return rolling
}

// budgetsOf are the numbers of nodes that may be down, and doubled, at once.
func budgetsOf(set *unstructured.Unstructured, desired int) (limit, surge int) {
	rolling := rollingOf(set)
	limit, surge = quantity(rolling["maxUnavailable"], desired), quantity(rolling["maxSurge"], desired)
	if isEdge(set) {
		limit = quantity(amount(set.GetAnnotations()[openyurt.MaxUnavailable]), desired)
	}
	if isAlongside(set) {
		limit = quantity(amount(set.GetAnnotations()[policyBudget]), desired)
	}
	switch {
	case byHand(set):
		return 0, 0
	case surge > 0:
		return 0, surge
	case limit == 0:
		return 1, 0
	default:
		return limit, 0
	}
}

// quantity is a number, or a percentage rounded up.
func quantity(value any, of int) int {
	switch v := value.(type) {
	case int64:
		return int(v)
	case string:
		n, _ := strconv.Atoi(strings.TrimSuffix(v, "%"))
		return (n*of + 99) / 100
	default:
		return 0
	}
}

// limits are how far an update of an Advanced DaemonSet may go.
type limits struct {
	paused bool
	part   any
	zone   string
}

func limitsOf(set *unstructured.Unstructured) limits {
	rolling := rollingOf(set)
	paused, _ := rolling["paused"].(bool)
	zone, _, _ := unstructured.NestedString(rolling, "selector", "matchLabels", zoneLabel)
	return limits{paused: paused, part: rolling["partition"], zone: zone}
}

// leaves is whether the selector leaves a node out.
func (l limits) leaves(n *corev1.Node) bool {
	return l.zone != "" && n != nil && n.Labels[zoneLabel] != l.zone
}

// partition is how many nodes keep their revision; a percentage is rounded down.
func (l limits) partition(desired int) int {
	switch v := l.part.(type) {
	case int64:
		return int(v)
	case string:
		n, _ := strconv.Atoi(strings.TrimSuffix(v, "%"))
		return n * desired / 100
	default:
		return 0
	}
}

// hooked is whether the set's hook still holds a pod.
func hooked(set *unstructured.Unstructured, p *corev1.Pod) bool {
	handlers, _, _ := unstructured.NestedStringMap(set.Object, "spec", "lifecycle", "preDelete", "labelsHandler")
	return handlers[blockLabel] != "" && p.Labels[blockLabel] == handlers[blockLabel]
}
