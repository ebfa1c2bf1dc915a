// SPDX-License-Identifier: Apache-2.0

package native

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/placement"
)

// Reasons of Problems; the third is ReasonSelectingAll.
const (
	ReasonInvalidSpec       = "InvalidSpec"
	ReasonInvalidAnnotation = "InvalidAnnotation"
)

// Defaults of the API server for a DaemonSet of apps/v1.
const (
	defaultMaxUnavailable = 1
	defaultHistoryLimit   = 10
)

// Digest reads a DaemonSet of apps/v1. It shares the template with obj, which must not be changed afterwards.
func Digest(obj map[string]any) dialect.Workload {
	r := &reader{}
	root := object{fields: obj}
	if obj == nil {
		root.fields = map[string]any{}
	}
	spec := r.required(root, "spec")
	w := dialect.Workload{Selector: labels.Nothing()}
	r.metadata(&w, r.optional(root, "metadata"))
	r.template(&w, spec)
	r.selector(&w, spec)
	w.HistoryLimit = r.count(spec, "revisionHistoryLimit", defaultHistoryLimit)
	w.Set.MinReady = time.Duration(r.count(spec, "minReadySeconds", 0)) * time.Second
	r.strategy(&w.Set, spec)
	r.annotations(&w)
	w.Status, w.ObservedGeneration, w.CollisionCount = readStatus(obj)
	w.Problems = r.problems
	return w
}

func (r *reader) metadata(w *dialect.Workload, metadata object) {
	w.Namespace = r.text(metadata, "namespace", "")
	w.Name = r.text(metadata, "name", "")
	w.UID = types.UID(r.text(metadata, "uid", ""))
	w.Generation, _ = integer(metadata.fields["generation"])
	w.Deleting = metadata.fields["deletionTimestamp"] != nil
	if err := decode(metadata.fields["annotations"], &w.Annotations); err != nil {
		w.Annotations = nil
		r.invalid(metadata.at("annotations"), "is not a map of strings: make all its values strings")
	}
}

func (r *reader) template(w *dialect.Workload, spec object) {
	template := r.required(spec, "template")
	w.Template = template.fields
	podSpec := r.required(template, "spec")
	if podSpec.fields == nil {
		return
	}
	rules, err := placement.Compile(podSpec.fields)
	w.Placement = rules
	switch {
	case err == nil:
	case rules == nil:
		r.invalid(podSpec.path, "cannot be read: correct what is wrong (%v)", err)
	default:
		r.warn(ReasonInvalidSpec, "A term of the required node affinity makes no sense and selects no node: correct it (%v).", err)
	}
}

// selector reads the selector, and checks that it matches the template's labels: otherwise the set would not recognise
// the pods that it creates, and create more of them without end.
func (r *reader) selector(w *dialect.Workload, spec object) {
	field := r.required(spec, "selector")
	if field.fields == nil {
		return
	}
	var typed metav1.LabelSelector
	if err := decode(field.fields, &typed); err != nil {
		r.invalid(field.path, "cannot be read: correct what is wrong (%v)", err)
		return
	}
	if len(typed.MatchLabels) == 0 && len(typed.MatchExpressions) == 0 {
		w.SelectsAll = true
		w.Selector = labels.Everything()
		r.problems = append(r.problems, dialect.Problem{
			Reason: ReasonSelectingAll, Message: messageSelectingAll, Fatal: true,
		})
		return
	}
	selector, err := metav1.LabelSelectorAsSelector(&typed)
	if err != nil {
		r.invalid(field.path, "cannot be used: correct what is wrong (%v)", err)
		return
	}
	w.Selector = selector
	if w.Template == nil {
		return
	}
	if !selector.Matches(r.templateLabels(w.Template)) {
		r.invalid(field.path, "does not match the labels of spec.template: add the labels that it asks for to the template")
	}
}

func (r *reader) templateLabels(template map[string]any) labels.Set {
	metadata := r.optional(object{path: "spec.template", fields: template}, "metadata")
	var set labels.Set
	if err := decode(metadata.fields["labels"], &set); err != nil {
		r.invalid(metadata.at("labels"), "is not a map of strings: make all its values strings")
		return nil
	}
	return set
}
