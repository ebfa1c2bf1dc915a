// SPDX-License-Identifier: Apache-2.0

package kruise

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/base"
	"everynode.dev/everynode/internal/rollout"
)

// Options are the fields that only an Advanced DaemonSet has.
type Options struct {
	Paused bool
	// Partition is how many nodes keep their revision; a percentage is rounded down.
	Partition rollout.Quantity
	// NodeSelector chooses the nodes that are updated; nil means all.
	NodeSelector labels.Selector
	// Progressive reports whether the partition also holds back the creation of pods.
	Progressive bool
	// InPlace reports whether pods are changed in place where that is possible.
	InPlace bool
	// Grace is how long a pod is not ready before it is changed in place.
	Grace time.Duration
	// CloseGate reports whether the pod is not ready during the change, even without a Grace.
	CloseGate bool
	// InitImages reports whether images of init containers that have ended are changed in place.
	InitImages bool
	// Burst is how many writes one plan holds at most; a percentage of the desired nodes is rounded down, to at least 1.
	Burst rollout.Quantity
	// Unmarked reports whether new pods are not marked as DaemonSet pods for autoscalers.
	Unmarked bool
	// ComeBackFirst is for how long, at most, nodes that come back are held for the pods of the set; 0 for not at all.
	ComeBackFirst time.Duration
	// PreDelete is the hook that pods wait for before they are deleted; nil if there is none.
	PreDelete *Hook
}

// Hook defines which pods wait.
type Hook struct {
	Labels       map[string]string
	Finalizers   []string
	MarkNotReady bool
}

// complete puts the options into the Workload.
func (o Options) complete(w *dialect.Workload) {
	w.Set.Burst = o.Burst
	w.Set.Limits = rollout.Limits{
		Paused: o.Paused, Partition: o.Partition, Selective: o.NodeSelector != nil, Descending: true, Progressive: o.Progressive,
	}
	w.Set.EligibleOnly = true
	w.Set.InPlace, w.Set.Grace, w.Set.CloseGate = o.InPlace, o.Grace, o.CloseGate
	w.Set.InitImages = o.InitImages
	w.NodeSelector, w.ComeBackFirst = o.NodeSelector, o.ComeBackFirst
	if !o.Unmarked {
		w.PodAnnotations = map[string]string{everynode.AutoscalerDaemonPod: "true"}
	}
	if o.PreDelete != nil {
		w.PreDelete = &dialect.PreDelete{Labels: o.PreDelete.Labels, Finalizers: o.PreDelete.Finalizers, MarkNotReady: o.PreDelete.MarkNotReady}
	}
}

func readOptions(r *base.Reader, w *dialect.Workload, spec base.Object) Options {
	o := Options{}
	if rolling, ok := r.Strategy(&w.Set, spec); ok {
		readRolling(r, w, &o, rolling)
	}
	o.Burst = r.Quantity(spec, "burstReplicas", rollout.Quantity{Value: rollout.DefaultBurst})
	if o.Burst.Value == 0 {
		r.Invalid(spec.At("burstReplicas"), "is 0, with which nothing could ever be done: set it to a number from 1")
	}
	o.Progressive = progressive(r, w, spec)
	o.Grace = grace(r, w)
	closes := base.Annotation(r, w, everynode.InPlaceGateValue, "until then the gate stays open, unless there is a grace period")
	o.CloseGate = ptr.Deref(closes, false)
	o.InitImages = ptr.Deref(base.Annotation(r, w, everynode.InPlaceInitImagesValue, "until then such a change recreates pods"), false)
	o.Unmarked = !ptr.Deref(base.Annotation(r, w, everynode.MarkForAutoscalerValue, "until then new pods are marked for autoscalers"), true)
	base.Annotation(r, w, everynode.LeaveLastValue, "until then its pods leave a node in any order") // the webhook for evictions reads it
	o.ComeBackFirst = comeBackFirst(r, w)
	warnRestarts(r, w)
	o.PreDelete = preDelete(r, r.Optional(spec, "lifecycle"))
	return o
}

// readRolling reads spec.updateStrategy.rollingUpdate.
func readRolling(r *base.Reader, w *dialect.Workload, o *Options, rolling base.Object) {
	fallback := 0
	if rolling.Fields["maxUnavailable"] == nil && rolling.Fields["maxSurge"] == nil {
		fallback = base.DefaultMaxUnavailable
	}
	r.Budgets(&w.Set, rolling, fallback)
	surge := w.Set.MaxSurge.Value > 0
	if surge && w.Set.MaxUnavailable.Value > 0 {
		r.Invalid(rolling.At("maxSurge"), "may not be set when maxUnavailable is non-zero: set one of them to 0")
	}
	switch kind := r.Text(rolling, "rollingUpdateType", string(v1beta1.StandardRollingUpdateType)); v1beta1.RollingUpdateType(kind) {
	case v1beta1.StandardRollingUpdateType:
	case v1beta1.InplaceRollingUpdateType:
		o.InPlace = true
		if surge {
			r.Invalid(rolling.At("maxSurge"), "must be 0 for the type InPlaceIfPossible: set maxUnavailable instead")
		}
	default:
		r.Invalid(rolling.At("rollingUpdateType"), "is %q: set it to Standard or InPlaceIfPossible", kind)
	}
	o.Partition = r.Quantity(rolling, "partition", rollout.Quantity{})
	o.Paused = r.Flag(rolling, "paused")
	o.NodeSelector = nodeSelector(r, r.Optional(rolling, "selector"))
}

func nodeSelector(r *base.Reader, field base.Object) labels.Selector {
	if field.Fields == nil {
		return nil
	}
	var typed metav1.LabelSelector
	if err := base.Decode(field.Fields, &typed); err != nil {
		r.Invalid(field.Path, "cannot be read: correct what is wrong (%v)", err)
		return labels.Nothing()
	}
	selector, err := metav1.LabelSelectorAsSelector(&typed)
	if err != nil {
		r.Invalid(field.Path, "cannot be used: correct what is wrong (%v)", err)
		return labels.Nothing()
	}
	return selector
}

// progressive returns the value of the field or, if it is not set, of the annotation of v1alpha1.
func progressive(r *base.Reader, w *dialect.Workload, spec base.Object) bool {
	scale := r.Optional(spec, "scaleStrategy")
	if scale.Fields["partitionedScaling"] != nil {
		return r.Flag(scale, "partitionedScaling")
	}
	asked, _ := kruise.ProgressiveCreateValue.Parse(w.Annotations[kruise.ProgressiveCreate])
	return asked
}

func grace(r *base.Reader, w *dialect.Workload) time.Duration {
	seconds := base.Annotation(r, w, everynode.InPlaceGraceValue, "until then there is no wait")
	return time.Duration(ptr.Deref(seconds, 0)) * time.Second
}

// comeBackFirst reads for how long nodes that come back are held for the pods of the set, which must tolerate the taint: without that no pod would ever be ready there.
func comeBackFirst(r *base.Reader, w *dialect.Workload) time.Duration {
	seconds := base.Annotation(r, w, everynode.ComeBackFirstValue, "until then its pods come back to a node in any order")
	if hold := everynode.HoldTaint(); seconds != nil && !w.Placement.Tolerates(&hold) {
		r.Warn(base.ReasonIgnoredField, "Annotation %s has no effect, because the pods do not tolerate the taint %s: add the toleration to the template.", everynode.ComeBackFirst, everynode.HoldKey)
		return 0
	}
	return time.Duration(ptr.Deref(seconds, 0)) * time.Second
}

// warnHold warns a set that asks to come back first in a namespace where it may not.
func warnHold(w *dialect.Workload, mayHold func(namespace string) bool) {
	if w.ComeBackFirst > 0 && !mayHold(w.Namespace) {
		w.Problems = append(w.Problems, dialect.Problem{Reason: base.ReasonIgnoredField, Message: fmt.Sprintf(
			"Annotation %s has no effect in namespace %s: an administrator allows it with the flag --come-back-first-namespaces of the manager, or the value manager.comeBackFirstNamespaces of the chart.",
			everynode.ComeBackFirst, w.Namespace)})
	}
}

// preDelete reads the only supported hook. OpenKruise ignores the others silently; Everynode ignores them and reports this.
func preDelete(r *base.Reader, lifecycle base.Object) *Hook {
	for _, ignored := range []string{"inPlaceUpdate", "preNormal"} {
		if lifecycle.Fields[ignored] != nil {
			r.Warn(base.ReasonIgnoredField, "Field %s has no effect on a daemon set: remove it.", lifecycle.At(ignored))
		}
	}
	field := r.Optional(lifecycle, "preDelete")
	if field.Fields == nil {
		return nil
	}
	var typed struct {
		LabelsHandler     map[string]string `json:"labelsHandler"`
		FinalizersHandler []string          `json:"finalizersHandler"`
		MarkPodNotReady   bool              `json:"markPodNotReady"`
	}
	if err := base.Decode(field.Fields, &typed); err != nil {
		r.Invalid(field.Path, "cannot be read: correct what is wrong (%v)", err)
		return nil
	}
	return &Hook{Labels: typed.LabelsHandler, Finalizers: typed.FinalizersHandler, MarkNotReady: typed.MarkPodNotReady}
}
