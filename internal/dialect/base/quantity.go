// SPDX-License-Identifier: Apache-2.0

package base

import (
	"math"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"

	"everynode.dev/everynode/internal/rollout"
)

// Quantity is the number or percentage at key, or fallback when it is absent.
func (r *Reader) Quantity(parent Object, key string, fallback rollout.Quantity) rollout.Quantity {
	value := parent.Fields[key]
	if value == nil {
		return fallback
	}
	q, ok := parseQuantity(value)
	if !ok {
		r.Invalid(parent.At(key), "is %s: set it to a whole number such as 3, or a percentage such as %q", Describe(value), "10%")
		return fallback
	}
	return q
}

// Budgets reads maxUnavailable, which is fallback when it is absent, and maxSurge. If both are 0,
// maxUnavailable counts as 1, as in the native controller, because otherwise no update could continue.
func (r *Reader) Budgets(set *rollout.Set, rolling Object, fallback int) {
	set.MaxUnavailable = r.Quantity(rolling, "maxUnavailable", rollout.Quantity{Value: fallback})
	set.MaxSurge = r.Quantity(rolling, "maxSurge", rollout.Quantity{})
	if set.MaxUnavailable.Value == 0 && set.MaxSurge.Value == 0 {
		set.MaxUnavailable = rollout.Quantity{Value: 1}
		r.Warn(ReasonIgnoredField, "Fields %s and %s are both 0, with which no update can go on: set one of them; "+
			"until then one node at a time is updated.", rolling.At("maxUnavailable"), rolling.At("maxSurge"))
	}
}

// Strategy reads the type of spec.updateStrategy, and returns the block rollingUpdate; ok is false for
// another type. Then the block is ignored: the API server keeps an old block when the type changes.
func (r *Reader) Strategy(set *rollout.Set, spec Object) (rolling Object, ok bool) {
	set.MaxUnavailable = rollout.Quantity{Value: DefaultMaxUnavailable}
	update := r.Optional(spec, "updateStrategy")
	kind := r.Text(update, "type", string(appsv1.RollingUpdateDaemonSetStrategyType))
	switch appsv1.DaemonSetUpdateStrategyType(kind) {
	case appsv1.OnDeleteDaemonSetStrategyType:
		set.Strategy = rollout.OnDelete
		return Object{}, false
	case appsv1.RollingUpdateDaemonSetStrategyType:
		set.Strategy = rollout.RollingUpdate
		return r.Optional(update, "rollingUpdate"), true
	default:
		// Replacing nothing is the harmless reading, until the value is corrected.
		set.Strategy = rollout.OnDelete
		r.Invalid(update.At("type"), "is %q: set it to RollingUpdate or OnDelete", kind)
		return Object{}, false
	}
}

// Flag is the boolean at key, or false when it is absent.
func (r *Reader) Flag(parent Object, key string) bool {
	value := parent.Fields[key]
	if value == nil {
		return false
	}
	flag, ok := value.(bool)
	if !ok {
		r.Invalid(parent.At(key), "is %s: set it to true or false", Describe(value))
	}
	return flag
}

// parseQuantity reads a whole number, or a string of digits with a percent sign. As in Kubernetes, a string without the
// sign is not a number.
func parseQuantity(value any) (rollout.Quantity, bool) {
	if n, ok := Integer(value); ok {
		return rollout.Quantity{Value: int(n)}, n >= 0 && n <= math.MaxInt32
	}
	text, isText := value.(string)
	digits, isPercent := strings.CutSuffix(text, "%")
	if !isText || !isPercent {
		return rollout.Quantity{}, false
	}
	n, ok := parseDigits(digits)
	return rollout.Quantity{Value: n, Percent: true}, ok
}

func parseDigits(digits string) (int, bool) {
	if strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 32)
	return int(n), err == nil
}
