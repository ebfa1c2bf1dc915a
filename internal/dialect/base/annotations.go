// SPDX-License-Identifier: Apache-2.0

package base

import (
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rollout"
)

// annotations reads the annotations that mean something to every dialect.
func (r *Reader) annotations(w *dialect.Workload) {
	r.pullAhead(w)
	text, ok := w.Annotations[everynode.MaxReplacing]
	if !ok {
		return
	}
	q, ok := parseMaxReplacing(text)
	if !ok {
		// Somebody wanted a cap, so there is one: the strictest holds back most and harms least.
		q = rollout.Quantity{Value: 1}
		r.Warn(ReasonInvalidAnnotation, "Annotation %s is %q: set it to a whole number from 1, or a percentage from 1%% to 100%%; "+
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

// TemplateGeneration reads the generation of the template that stands in an annotation. It is for DaemonSets of apps/v1 alone, whose
// API server raises it with every change of the template: where nobody does, a pod of an old template would seem to be current.
// Without a valid one pods are told apart by the hash of their revision alone, as upstream does.
func (r *Reader) TemplateGeneration(w *dialect.Workload) {
	text, ok := w.Annotations[appsv1.DeprecatedTemplateGeneration]
	if !ok {
		return
	}
	generation, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		r.Warn(ReasonInvalidAnnotation, "Annotation %s is %q: remove it, it is kept by the API server; "+
			"until then pods get no label pod-template-generation.", appsv1.DeprecatedTemplateGeneration, text)
		return
	}
	w.TemplateGeneration = &generation
}
