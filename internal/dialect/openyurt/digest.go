// SPDX-License-Identifier: Apache-2.0

package openyurt

import (
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/openyurt"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/base"
	"everynode.dev/everynode/internal/rollout"
)

// DefaultBlame is what counts without the annotation everynode.BlameWindow.
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

// DigestGuest reads a DaemonSet of apps/v1 whose pods another controller keeps. Of one without annotations of OpenYurt all is that
// controller's business: also what is wrong with it.
func DigestGuest(obj map[string]any) dialect.Workload {
	w := Digest(obj)
	switch {
	case w.Plain == nil:
		w.Set = rollout.Set{Strategy: rollout.OnDelete}
		w.Problems = nil
	case w.Plain.Strategy != rollout.OnDelete: // the annotation is ignored, and the other controller rolls
		w.Set = rollout.Set{Strategy: rollout.OnDelete}
	}
	w.Set.Guest = true
	w.Status = rollout.Status{} // the other controller's: that its numbers change is no reason to decide anew
	return w
}

// read applies the annotation UpdateStrategy. Until all is clear, old pods are left to the person who deletes them. With another type than OnDelete OpenYurt
// ignores the annotation, and so does this: the roll that the specification asks for goes on.
func read(r *base.Reader, w *dialect.Workload, text string) {
	if w.Set.Strategy != rollout.OnDelete {
		r.Warn(ReasonIgnoredAnnotation, "Annotation %s is %q, which goes with spec.updateStrategy.type OnDelete only and is ignored: set the type to OnDelete, or remove the annotation.",
			openyurt.UpdateStrategy, text)
		return
	}
	strategy, known := openyurt.ParseStrategy(text)
	switch {
	case !known:
		r.Warn(base.ReasonInvalidAnnotation, "Annotation %s is %q: set it to %s or %s, or remove it; %s.",
			openyurt.UpdateStrategy, text, openyurt.AdvancedRollingUpdate, openyurt.OTA, held)
	case strategy == openyurt.OTA:
		w.Set.Announce = true
	default:
		advanced(r, w)
	}
}

// advanced applies what goes with AdvancedRollingUpdate.
func advanced(r *base.Reader, w *dialect.Workload) {
	limit, limitOK := openyurt.ParseMaxUnavailable(w.Annotations[openyurt.MaxUnavailable])
	if !limitOK {
		r.Warn(base.ReasonInvalidAnnotation, "Annotation %s is %q: set it to a whole number from 1, or a percentage from 1%% to 100%%, or remove it for %s; %s.",
			openyurt.MaxUnavailable, w.Annotations[openyurt.MaxUnavailable], openyurt.DefaultMaxUnavailable, held)
	}
	blame, blameOK := DefaultBlame, true
	if text, asked := w.Annotations[everynode.BlameWindow]; asked {
		var err error
		blame, err = time.ParseDuration(text)
		if blameOK = err == nil && blame >= 0; !blameOK {
			r.Warn(base.ReasonInvalidAnnotation, "Annotation %s is %q: set it to a duration such as 10m or 90s, or remove it for %s; %s.",
				everynode.BlameWindow, text, "10m", held)
		}
	}
	if !limitOK || !blameOK {
		return
	}
	w.Set.Strategy, w.Set.MaxUnavailable = rollout.RollingUpdate, quantity(limit)
	w.Set.Unreachable = rollout.Unreachable{Skip: true, Blame: blame}
	if w.Set.MaxReplacing == nil {
		// When a site comes back, its nodes are ready before their pods are: all of them would be updated at once.
		w.Set.MaxReplacing = new(w.Set.MaxUnavailable)
	}
}

// quantity is a value of MaxUnavailable, which has been checked.
func quantity(v intstr.IntOrString) rollout.Quantity {
	if v.Type == intstr.Int {
		return rollout.Quantity{Value: v.IntValue()}
	}
	n, _ := strconv.Atoi(strings.TrimSuffix(v.StrVal, "%"))
	return rollout.Quantity{Value: n, Percent: true}
}
