// SPDX-License-Identifier: Apache-2.0

package base

import (
	"everynode.dev/everynode/api/annotation"
	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rollout"
)

// Annotation is the value of an annotation of w; nil if it is missing or cannot be read. A Problem reports one that cannot be read, with until: what applies for now.
func Annotation[T any](r *Reader, w *dialect.Workload, a annotation.Value[T], until string) *T {
	text, ok := w.Annotations[a.Key]
	if !ok {
		return nil
	}
	if value, ok := a.Parse(text); ok {
		return &value
	}
	r.Warn(ReasonInvalidAnnotation, "Annotation %s is %q: %s; %s.", a.Key, text, a.Remedy(), until)
	return nil
}

// annotations reads the annotations that mean something to every dialect.
func (r *Reader) annotations(w *dialect.Workload) {
	r.pullAhead(w)
	w.Set.MaxReplacing = (*rollout.Quantity)(Annotation(r, w, everynode.MaxReplacingValue, "until then one node at a time is replaced"))
	if _, asked := w.Annotations[everynode.MaxReplacing]; asked && w.Set.MaxReplacing == nil {
		w.Set.MaxReplacing = &rollout.Quantity{Value: 1} // a limit was requested: the strictest value is the safest
	}
}

// TemplateGeneration reads the generation of the template from an annotation. It is for DaemonSets of apps/v1 alone, whose
// API server raises it with every change of the template: in other objects a pod of an old template would seem to be current.
// Without a valid one, only the hash of their revision distinguishes pods, as upstream.
func (r *Reader) TemplateGeneration(w *dialect.Workload) {
	w.TemplateGeneration = Annotation(r, w, annotation.TemplateGeneration, "until then pods get no label pod-template-generation")
}
