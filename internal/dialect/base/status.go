// SPDX-License-Identifier: Apache-2.0

package base

import (
	"maps"
	"math"

	appsv1 "k8s.io/api/apps/v1"
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

// readStatus reads the status of an object. A value that cannot be read counts as 0, and the next write corrects it.
func readStatus(obj map[string]any) (s rollout.Status, observed int64, collisions *int32) {
	status, _ := obj["status"].(map[string]any)
	for _, field := range statusFields(&s) {
		n, _ := Integer(status[field.name])
		*field.value = int(n)
	}
	observed, _ = Integer(status["observedGeneration"])
	if n, ok := Integer(status["collisionCount"]); ok && n >= math.MinInt32 && n <= math.MaxInt32 {
		count := int32(n)
		collisions = &count
	}
	return s, observed, collisions
}

// Status is what every dialect says of a set.
type Status struct {
	Numbers            rollout.Status
	ObservedGeneration int64
	// CollisionCount is nil when it is not known.
	CollisionCount *int32
	// UpdateRevision is the newest revision, as in the label controller-revision-hash of its pods; empty where it is not known, or is not a field of the dialect.
	UpdateRevision string
}

// Conditions reads the conditions of a status. What cannot be read counts as absent.
func Conditions(obj map[string]any) []appsv1.DaemonSetCondition {
	status, _ := obj["status"].(map[string]any)
	var conditions []appsv1.DaemonSetCondition
	if Decode(status["conditions"], &conditions) != nil {
		return nil
	}
	return conditions
}

// StatusPatch returns the body of a JSON merge patch for the status subresource that brings the status that w was read with to
// s, and whether there is anything to change. The patch holds all our numbers, the
// fields in more, which are those of one dialect that changed, and the object's UID, so that it is refused for a successor
// of the same name. Numbers that only grow (the observed generation and the collision count) are not decreased because of an
// answer from an old cache. However, an observed generation higher than the generation of the object is corrected: a status
// has one after the storage of the API server was restored from a backup, and `kubectl rollout status` would treat the next
// change as already observed.
//
// The observed generation and the name of its revision are written only together (with the revision of an earlier generation the observed one would name
// another template), when one of them has changed, and onto the version that w was read from. After such a restore the same generation may have another
// template: a manager that has not noticed it would otherwise name the revision of a template that the object does not have, and pods of that would count
// as updated for ever.
func StatusPatch(w *dialect.Workload, s Status, more map[string]any) ([]byte, bool) {
	observed := max(s.ObservedGeneration, min(w.ObservedGeneration, w.Generation))
	raised := s.CollisionCount != nil && (w.CollisionCount == nil || *s.CollisionCount > *w.CollisionCount)
	named := observed != w.ObservedGeneration || s.UpdateRevision != "" && s.UpdateRevision != w.UpdateRevision
	if w.Status == s.Numbers && !named && !raised && len(more) == 0 {
		return nil, false
	}
	status, metadata := map[string]any{}, map[string]any{}
	for _, field := range statusFields(&s.Numbers) {
		status[field.name] = int64(*field.value)
	}
	if named {
		status["observedGeneration"] = observed
	}
	if named && s.UpdateRevision != "" {
		status["updateRevision"] = s.UpdateRevision
	}
	if named && w.ResourceVersion != "" {
		metadata["resourceVersion"] = w.ResourceVersion
	}
	if raised {
		status["collisionCount"] = int64(*s.CollisionCount)
	}
	maps.Copy(status, more)
	patch := map[string]any{"status": status}
	if w.UID != "" {
		metadata["uid"] = string(w.UID)
	}
	if len(metadata) > 0 {
		patch["metadata"] = metadata
	}
	// Maps of strings, whole numbers and conditions can always be encoded.
	data, err := json.Marshal(patch)
	return data, err == nil
}
