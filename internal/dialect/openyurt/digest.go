// SPDX-License-Identifier: Apache-2.0

package openyurt

import (
	"time"

	"everynode.dev/everynode/api/annotation"
	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/openyurt"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/base"
	"everynode.dev/everynode/internal/rollout"
)

// DefaultBlame is what counts without the annotation everynode.FailureAttributionWindow.
const DefaultBlame = 10 * time.Minute

// held ends the sentence about what cannot be honoured.
const held = "until then Everynode deletes no old pod of this DaemonSet"

// Digest reads a DaemonSet of apps/v1 whose pods Everynode keeps. It shares the template with obj, which must not be changed afterwards.
func Digest(obj map[string]any) dialect.Workload {
	r := &base.Reader{}
	w := r.DaemonSet(obj)
	w.Conditions = base.Conditions(obj)
	if text, asked := w.Annotations[openyurt.UpdateStrategy]; asked {
		plain := w.Set
		w.Plain = &plain
		read(r, &w, text)
	}
	w.Problems = r.Problems()
	return w
}

// DigestExternal reads a DaemonSet of apps/v1 whose pods another controller keeps. A DaemonSet without
// annotations of OpenYurt is entirely managed by that controller, including its problems.
func DigestExternal(obj map[string]any) dialect.Workload {
	w := Digest(obj)
	switch {
	case w.Plain == nil:
		base.Alongside(&w)
	case w.Plain.Strategy != rollout.OnDelete: // the annotation is ignored, and the other controller rolls
		w.Set = rollout.Set{Strategy: rollout.OnDelete}
	}
	w.Set.ExternalController = true
	w.Status = rollout.Status{} // the other controller's: that its numbers change is not a reason to decide again
	return w
}

// read applies the annotation UpdateStrategy. While there are problems, old pods are updated only when a user deletes them. With another type than OnDelete OpenYurt
// ignores the annotation, and so does this: the roll that the specification asks for goes on.
func read(r *base.Reader, w *dialect.Workload, text string) {
	if w.Set.Strategy != rollout.OnDelete {
		r.Warn(ReasonIgnoredAnnotation, "Annotation %s is %q, which goes with spec.updateStrategy.type OnDelete only and is ignored: set the type to OnDelete, or remove the annotation.",
			openyurt.UpdateStrategy, text)
		return
	}
	switch strategy := base.Annotation(r, w, openyurt.UpdateStrategyValue, held); {
	case strategy == nil:
	case *strategy == openyurt.OTA:
		w.Set.Announce = true
	default:
		advanced(r, w)
	}
}

// advanced applies what goes with AdvancedRollingUpdate.
func advanced(r *base.Reader, w *dialect.Workload) {
	byDefault, _ := openyurt.MaxUnavailableValue.Parse("")
	limit, limitOK := value(r, w, openyurt.MaxUnavailableValue, byDefault)
	blame, blameOK := value(r, w, windowOf(r, w), DefaultBlame)
	if !limitOK || !blameOK {
		return
	}
	w.Set.Strategy, w.Set.MaxUnavailable = rollout.RollingUpdate, rollout.Quantity(limit)
	w.Set.Unreachable = rollout.Unreachable{Skip: true, AttributionWindow: blame}
	if w.Set.MaxReplacing == nil {
		// When a site comes back, its nodes are ready before their pods are: all of them would be updated at once.
		w.Set.MaxReplacing = new(w.Set.MaxUnavailable)
	}
}

// windowOf returns the annotation with the failure attribution window. Its earlier name counts if only that is set.
func windowOf(r *base.Reader, w *dialect.Workload) annotation.Value[time.Duration] {
	_, earlier := w.Annotations[everynode.BlameWindow]
	if !earlier {
		return everynode.FailureAttributionWindowValue
	}
	r.Warn(ReasonDeprecatedAnnotation, "Annotation %s has another name now: set %s instead, and remove it.", everynode.BlameWindow, everynode.FailureAttributionWindow)
	if _, set := w.Annotations[everynode.FailureAttributionWindow]; set {
		return everynode.FailureAttributionWindowValue
	}
	return everynode.BlameWindowValue
}

// value returns the value of an annotation, or its default; ok is false if it cannot be read.
func value[T any](r *base.Reader, w *dialect.Workload, a annotation.Value[T], without T) (value T, ok bool) {
	if _, asked := w.Annotations[a.Key]; !asked {
		return without, true
	}
	if read := base.Annotation(r, w, a, held); read != nil {
		return *read, true
	}
	return without, false
}
