// SPDX-License-Identifier: Apache-2.0

package base

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/placement"
	"everynode.dev/everynode/internal/rollout"
)

// Defaults that all dialects share.
const (
	DefaultMaxUnavailable = 1
	DefaultHistoryLimit   = 10
)

// Workload reads everything except the update strategy from a DaemonSet, and returns the spec for the remaining fields. It shares
// the template with obj. The caller adds the Problems of r when it has read the rest.
func (r *Reader) Workload(obj map[string]any) (w dialect.Workload, spec Object) {
	root := Object{Fields: obj}
	if obj == nil {
		root.Fields = map[string]any{}
	}
	spec = r.Required(root, "spec")
	w = dialect.Workload{Selector: labels.Nothing()}
	r.metadata(&w, r.Optional(root, "metadata"))
	r.template(&w, spec)
	r.selector(&w, spec)
	w.HistoryLimit = r.Count(spec, "revisionHistoryLimit", DefaultHistoryLimit)
	w.Set.MinReady = time.Duration(r.Count(spec, "minReadySeconds", 0)) * time.Second
	r.annotations(&w)
	w.Status, w.ObservedGeneration, w.CollisionCount = readStatus(obj)
	return w, spec
}

// DaemonSet reads a DaemonSet of apps/v1. It shares the template with obj. The caller adds the Problems of r.
func (r *Reader) DaemonSet(obj map[string]any) dialect.Workload {
	w, spec := r.Workload(obj)
	r.TemplateGeneration(&w)
	if rolling, ok := r.Strategy(&w.Set, spec); ok {
		r.Budgets(&w.Set, rolling, DefaultMaxUnavailable)
	} else if w.Set.Strategy == rollout.OnDelete {
		w.TemplateOwners = templateOwners(obj)
	}
	return w
}

func (r *Reader) metadata(w *dialect.Workload, metadata Object) {
	w.Namespace = r.Text(metadata, "namespace", "")
	w.Name = r.Text(metadata, "name", "")
	w.UID = types.UID(r.Text(metadata, "uid", ""))
	w.ResourceVersion = r.Text(metadata, "resourceVersion", "")
	w.Generation, _ = Integer(metadata.Fields["generation"])
	if created, err := time.Parse(time.RFC3339, r.Text(metadata, "creationTimestamp", "")); err == nil {
		w.Created = rollout.Time(created.UnixNano())
	}
	w.Deleting = metadata.Fields["deletionTimestamp"] != nil
	if err := Decode(metadata.Fields["labels"], &w.Labels); err != nil {
		w.Labels = nil // no selector of a policy matches it
	}
	if err := Decode(metadata.Fields["annotations"], &w.Annotations); err != nil {
		w.Annotations = nil
		r.Invalid(metadata.At("annotations"), "is not a map of strings: make all its values strings")
	}
}

func (r *Reader) template(w *dialect.Workload, spec Object) {
	template := r.Required(spec, "template")
	w.Template = template.Fields
	podSpec := r.Required(template, "spec")
	if podSpec.Fields == nil {
		return
	}
	rules, err := placement.Compile(podSpec.Fields)
	w.Placement = rules
	switch {
	case err == nil && rules.Terms() > placement.MaxTerms:
		r.Warn(ReasonCostlyPlacement, "Field %s has %d tolerations, and expressions and values of its required node affinity, each of which is compared with every node:"+
			" have at most %d, for example by labelling the nodes.", podSpec.Path, rules.Terms(), placement.MaxTerms)
	case err == nil:
	case rules == nil:
		r.Invalid(podSpec.Path, "cannot be read: correct what is wrong (%v)", err)
	default:
		r.Warn(ReasonIgnoredField, "A term of the required node affinity makes no sense and selects no node: correct it (%v).", err)
	}
}

// selector reads the selector, and checks that it matches the template's labels: otherwise the set would not recognise
// the pods that it creates, and create more of them without end.
func (r *Reader) selector(w *dialect.Workload, spec Object) {
	field := r.Required(spec, "selector")
	if field.Fields == nil {
		return
	}
	var typed metav1.LabelSelector
	if err := Decode(field.Fields, &typed); err != nil {
		r.Invalid(field.Path, "cannot be read: correct what is wrong (%v)", err)
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
		r.Invalid(field.Path, "cannot be used: correct what is wrong (%v)", err)
		return
	}
	w.Selector = selector
	if w.Template == nil {
		return
	}
	if !selector.Matches(r.templateLabels(w.Template)) {
		r.Invalid(field.Path, "does not match the labels of spec.template: add the labels that it asks for to the template")
	}
}

func (r *Reader) templateLabels(template map[string]any) labels.Set {
	metadata := r.Optional(Object{Path: "spec.template", Fields: template}, "metadata")
	var set labels.Set
	if err := Decode(metadata.Fields["labels"], &set); err != nil {
		r.Invalid(metadata.At("labels"), "is not a map of strings: make all its values strings")
		return nil
	}
	return set
}
