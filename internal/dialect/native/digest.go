// SPDX-License-Identifier: Apache-2.0

package native

import (
	appsv1 "k8s.io/api/apps/v1"

	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/base"
	"everynode.dev/everynode/internal/rollout"
)

// Digest reads a DaemonSet of apps/v1. It shares the template with obj, which must not be changed afterwards.
func Digest(obj map[string]any) dialect.Workload {
	r := &base.Reader{}
	w, spec := r.Workload(obj)
	strategy(r, &w.Set, spec)
	w.Problems = r.Problems()
	return w
}

// strategy reads spec.updateStrategy. What stands in rollingUpdate counts only with the type RollingUpdate: the API
// server leaves an old block there when somebody changes the type, and surge must then be off.
func strategy(r *base.Reader, set *rollout.Set, spec base.Object) {
	set.MaxUnavailable = rollout.Quantity{Value: base.DefaultMaxUnavailable}
	update := r.Optional(spec, "updateStrategy")
	kind := r.Text(update, "type", string(appsv1.RollingUpdateDaemonSetStrategyType))
	switch appsv1.DaemonSetUpdateStrategyType(kind) {
	case appsv1.OnDeleteDaemonSetStrategyType:
		set.Strategy = rollout.OnDelete
	case appsv1.RollingUpdateDaemonSetStrategyType:
		set.Strategy = rollout.RollingUpdate
		budgets(r, set, r.Optional(update, "rollingUpdate"))
	default:
		// Replacing nothing is the harmless reading, until somebody says what is meant.
		set.Strategy = rollout.OnDelete
		r.Invalid(update.At("type"), "is %q: set it to RollingUpdate or OnDelete", kind)
	}
}

func budgets(r *base.Reader, set *rollout.Set, rolling base.Object) {
	set.MaxUnavailable = r.Quantity(rolling, "maxUnavailable", rollout.Quantity{Value: base.DefaultMaxUnavailable})
	set.MaxSurge = r.Quantity(rolling, "maxSurge", rollout.Quantity{})
	if set.MaxUnavailable.Value == 0 && set.MaxSurge.Value == 0 {
		set.MaxUnavailable = rollout.Quantity{Value: 1}
		r.Warn(base.ReasonInvalidSpec, "Fields %s and %s are both 0, with which no update can go on: set one of them; "+
			"until then one node at a time is updated.", rolling.At("maxUnavailable"), rolling.At("maxSurge"))
	}
}
