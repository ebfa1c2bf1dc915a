// SPDX-License-Identifier: Apache-2.0

package native

import (
	"math"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rollout"
)

// strategy reads spec.updateStrategy. What stands in rollingUpdate counts only with the type RollingUpdate: the API
// server leaves an old block there when somebody changes the type, and surge must then be off.
func (r *reader) strategy(set *rollout.Set, spec object) {
	set.MaxUnavailable = rollout.Quantity{Value: defaultMaxUnavailable}
	update := r.optional(spec, "updateStrategy")
	kind := r.text(update, "type", string(appsv1.RollingUpdateDaemonSetStrategyType))
	switch appsv1.DaemonSetUpdateStrategyType(kind) {
	case appsv1.OnDeleteDaemonSetStrategyType:
		set.Strategy = rollout.OnDelete
	case appsv1.RollingUpdateDaemonSetStrategyType:
		set.Strategy = rollout.RollingUpdate
		r.budgets(set, r.optional(update, "rollingUpdate"))
	default:
		// Replacing nothing is the harmless reading, until somebody says what is meant.
		set.Strategy = rollout.OnDelete
		r.invalid(update.at("type"), "is %q: set it to RollingUpdate or OnDelete", kind)
	}
}

func (r *reader) budgets(set *rollout.Set, rolling object) {
	set.MaxUnavailable = r.quantity(rolling, "maxUnavailable", rollout.Quantity{Value: defaultMaxUnavailable})
	set.MaxSurge = r.quantity(rolling, "maxSurge", rollout.Quantity{})
	if set.MaxUnavailable.Value == 0 && set.MaxSurge.Value == 0 {
		set.MaxUnavailable = rollout.Quantity{Value: 1}
		r.warn(ReasonInvalidSpec, "Fields %s and %s are both 0, with which no update can go on: set one of them; "+
			"until then one node at a time is updated.", rolling.at("maxUnavailable"), rolling.at("maxSurge"))
	}
}

// quantity is the number or percentage at key, or fallback when it is absent.
func (r *reader) quantity(parent object, key string, fallback rollout.Quantity) rollout.Quantity {
	value := parent.fields[key]
	if value == nil {
		return fallback
	}
	q, ok := parseQuantity(value)
	if !ok {
		r.invalid(parent.at(key), "is %s: set it to a whole number such as 3, or a percentage such as %q", describe(value), "10%")
		return fallback
	}
	return q
}

// parseQuantity reads a whole number, or a string of digits with a percent sign. As in Kubernetes, a string without the
// sign is not a number.
func parseQuantity(value any) (rollout.Quantity, bool) {
	if n, ok := integer(value); ok {
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

// annotations reads the annotations that mean something to this dialect.
func (r *reader) annotations(w *dialect.Workload) {
	r.templateGeneration(w)
	text, ok := w.Annotations[everynode.MaxReplacing]
	if !ok {
		return
	}
	q, ok := parseMaxReplacing(text)
	if !ok {
		// Somebody wanted a cap, so there is one: the strictest holds back most and harms least.
		q = rollout.Quantity{Value: 1}
		r.warn(ReasonInvalidAnnotation, "Annotation %s is %q: set it to a whole number from 1, or a percentage from 1%% to 100%%; "+
			"until then one node at a time is replaced.", everynode.MaxReplacing, text)
	}
	w.Set.MaxReplacing = &q
}

func parseMaxReplacing(text string) (rollout.Quantity, bool) {
	digits, percent := strings.CutSuffix(text, "%")
	n, ok := parseDigits(digits)
	if !ok || n < 1 || percent && n > 100 {
		return rollout.Quantity{}, false
	}
	return rollout.Quantity{Value: n, Percent: percent}, true
}

// templateGeneration reads the generation that the API server keeps in an annotation. Without a valid one pods are told
// apart by the hash of their revision alone, as upstream does.
func (r *reader) templateGeneration(w *dialect.Workload) {
	text, ok := w.Annotations[appsv1.DeprecatedTemplateGeneration]
	if !ok {
		return
	}
	generation, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		r.warn(ReasonInvalidAnnotation, "Annotation %s is %q: remove it, it is kept by the API server; "+
			"until then pods get no label pod-template-generation.", appsv1.DeprecatedTemplateGeneration, text)
		return
	}
	w.TemplateGeneration = &generation
}
