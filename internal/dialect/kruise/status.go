// SPDX-License-Identifier: Apache-2.0

package kruise

import (
	"reflect"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/base"
)

// Status is what is said of an Advanced DaemonSet.
type Status struct {
	base.Status
	// Conditions are all conditions, those of others included; see Conditions.
	Conditions []appsv1.DaemonSetCondition
}

// StatusPatch returns the body of a JSON merge patch for the status subresource that brings the status that w was read with to
// s, and whether there is anything to change. See base.StatusPatch.
func StatusPatch(w *dialect.Workload, s Status) ([]byte, bool) {
	more := map[string]any{}
	if len(s.Conditions) > 0 && !reflect.DeepEqual(s.Conditions, w.Conditions) {
		more["conditions"] = s.Conditions
	}
	return base.StatusPatch(w, s.Status, more)
}

// Report is StatusPatch for a dialect.Report: it adds the conditions. They report a specification that cannot be honoured, and have no other observable effect.
func Report(w *dialect.Workload, r dialect.Report) ([]byte, bool) {
	if fatal(w.Problems) >= 0 {
		r.ObservedGeneration = w.Generation
	}
	return StatusPatch(w, Status{
		Status: base.Status{Numbers: r.Numbers, ObservedGeneration: r.ObservedGeneration, CollisionCount: r.CollisionCount, UpdateRevision: r.UpdateRevision},
		Conditions: Conditions(w.Conditions, Observation{
			// The API server keeps whole seconds; what is compared with it must not have more.
			Now: metav1.NewTime(r.Now.UTC().Truncate(time.Second)), Snapshot: r.Snapshot, Plan: r.Plan, Paused: w.Set.Paused, Problems: slices.Concat(w.Problems, r.Problems), Failure: r.Failure,
			Governed: r.Governed,
		}),
	})
}
