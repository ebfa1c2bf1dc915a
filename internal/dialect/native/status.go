// SPDX-License-Identifier: Apache-2.0

package native

import (
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/base"
)

// StatusPatch returns the body of a JSON merge patch for the status subresource that brings the status that w was read with to
// r, and whether there is anything to change. The patch holds nothing of others (conditions).
func StatusPatch(w *dialect.Workload, r dialect.Report) ([]byte, bool) {
	return base.StatusPatch(w, base.Status{Numbers: r.Numbers, ObservedGeneration: r.ObservedGeneration, CollisionCount: r.CollisionCount}, nil)
}
