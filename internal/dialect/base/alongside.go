// SPDX-License-Identifier: Apache-2.0

package base

import (
	"slices"

	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rollout"
)

// Alongside turns w into a set whose pods another controller manages, and for which nothing is done. If its strategy is OnDelete, a rollout policy may have
// it updated by deletes. What is wrong with the set is that controller's business, and its numbers are not a reason to decide again.
func Alongside(w *dialect.Workload) {
	broken := slices.ContainsFunc(w.Problems, func(p dialect.Problem) bool { return p.Fatal })
	if w.Set.Strategy == rollout.OnDelete && !broken {
		by := w.Set
		by.Strategy, by.ExternalController = rollout.RollingUpdate, true
		by.MaxUnavailable, by.MaxSurge = rollout.Quantity{Value: DefaultMaxUnavailable}, rollout.Quantity{}
		w.ByPolicy = &by
	}
	w.Set, w.Problems, w.Status = rollout.Set{Strategy: rollout.OnDelete, ExternalController: true}, nil, rollout.Status{}
}
