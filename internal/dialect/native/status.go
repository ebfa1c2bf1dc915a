// SPDX-License-Identifier: Apache-2.0

package native

import (
	"math"

	"k8s.io/apimachinery/pkg/util/json"

	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rollout"
)

// statusField ties a number of the status to its name in the API.
type statusField struct {
	name  string
	value *int
}

// statusFields are the numbers of s.
func statusFields(s *rollout.Status) [7]statusField {
	return [7]statusField{
		{"desiredNumberScheduled", &s.Desired},
		{"currentNumberScheduled", &s.Current},
		{"numberMisscheduled", &s.Misscheduled},
		{"numberReady", &s.Ready},
		{"updatedNumberScheduled", &s.Updated},
		{"numberAvailable", &s.Available},
		{"numberUnavailable", &s.Unavailable},
	}
}

// readStatus reads the status of an object. Whatever cannot be read counts as 0 and is put right by the next write.
func readStatus(obj map[string]any) (s rollout.Status, observed int64, collisions *int32) {
	status, _ := obj["status"].(map[string]any)
	for _, field := range statusFields(&s) {
		n, _ := integer(status[field.name])
		*field.value = int(n)
	}
	observed, _ = integer(status["observedGeneration"])
	if n, ok := integer(status["collisionCount"]); ok && n >= math.MinInt32 && n <= math.MaxInt32 {
		count := int32(n)
		collisions = &count
	}
	return s, observed, collisions
}

// StatusPatch returns the body of a JSON merge patch for the status subresource that brings the status that w was read with to
// s, and whether there is anything to change. The patch holds all our numbers, so that they always belong together, nothing
// of others (conditions), and the object's UID, so that it is refused for a successor of the same name. What only ever
// grows, the observed generation and the count of collisions, is not set back by an answer from an old cache.
func StatusPatch(w *dialect.Workload, s rollout.Status, observedGeneration int64, collisionCount *int32) ([]byte, bool) {
	observedGeneration = max(observedGeneration, w.ObservedGeneration)
	raised := collisionCount != nil && (w.CollisionCount == nil || *collisionCount > *w.CollisionCount)
	if w.Status == s && w.ObservedGeneration == observedGeneration && !raised {
		return nil, false
	}
	status := map[string]any{"observedGeneration": observedGeneration}
	for _, field := range statusFields(&s) {
		status[field.name] = int64(*field.value)
	}
	if raised {
		status["collisionCount"] = int64(*collisionCount)
	}
	patch := map[string]any{"status": status}
	if w.UID != "" {
		patch["metadata"] = map[string]any{"uid": string(w.UID)}
	}
	// Maps of strings and whole numbers can always be encoded.
	data, err := json.Marshal(patch)
	return data, err == nil
}
