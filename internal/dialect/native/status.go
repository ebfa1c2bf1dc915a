// SPDX-License-Identifier: Apache-2.0

package native

import (
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/base"
	"everynode.dev/everynode/internal/rollout"
)

// StatusPatch returns the body of a JSON merge patch for the status subresource that brings the status that w was read with to
// s, and whether there is anything to change. The patch holds nothing of others (conditions).
func StatusPatch(w *dialect.Workload, s rollout.Status, observedGeneration int64, collisionCount *int32) ([]byte, bool) {
	return base.StatusPatch(w, base.Status{Numbers: s, ObservedGeneration: observedGeneration, CollisionCount: collisionCount}, nil)
}
