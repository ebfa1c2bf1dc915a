// SPDX-License-Identifier: Apache-2.0

package podtemplate

import (
	"maps"
	"reflect"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"everynode.dev/everynode/internal/placement"
)

// GenerationLabel is the pod label with the generation of the template. Versions of Kubernetes without a revision
// history used it; the native controller still writes and reads it in addition to the hash of the revision.
const GenerationLabel = "pod-template-generation"

// Params are the values that differ between pods.
type Params struct {
	Namespace, SetName, PodName string
	// Node is the node that the pod is created for.
	Node string
	// Hash is the value of the label controller-revision-hash.
	Hash string
	// TemplateGeneration is the value of the label pod-template-generation; nil omits the label.
	TemplateGeneration *int64
	// Owner is the controller of the pod.
	Owner metav1.OwnerReference
}

// Maker makes pods from one template. It is immutable and safe for concurrent use.
type Maker struct {
	labels      map[string]any
	annotations map[string]any
	finalizers  []any
	// spec is the spec of the template with the tolerations of a daemon pod; affinity is its affinity.
	spec     map[string]any
	affinity map[string]any
	// decoded is the pod of a node without a name in our types; nil before Decode, and if they would lose fields.
	decoded *corev1.Pod
}

// NewMaker prepares template, which must not be changed afterwards. rules are compiled from its spec and must not be
// nil.
func NewMaker(template map[string]any, rules *placement.Rules) *Maker {
	metadata := object(template, "metadata")
	template = object(template, "spec")
	spec := make(map[string]any, len(template)+3)
	maps.Copy(spec, template)
	spec["tolerations"] = rules.Tolerations()
	finalizers, _ := metadata["finalizers"].([]any)
	return &Maker{
		labels:      object(metadata, "labels"),
		annotations: object(metadata, "annotations"),
		finalizers:  finalizers,
		spec:        spec,
		affinity:    object(template, "affinity"),
	}
}

// WithGates returns a Maker whose pods have these readiness gates in addition to those of the template.
func (m *Maker) WithGates(gates []string) *Maker {
	have, _ := m.spec["readinessGates"].([]any)
	list := slices.Clone(have)
	for _, gate := range gates {
		entry := map[string]any{"conditionType": gate}
		if !slices.ContainsFunc(list, func(g any) bool { return reflect.DeepEqual(g, entry) }) {
			list = append(list, entry)
		}
	}
	if len(list) == len(have) {
		return m
	}
	gated := *m
	gated.spec = maps.Clone(m.spec)
	gated.spec["readinessGates"] = list
	gated.decoded = nil
	return &gated
}

// WithAnnotations returns a Maker whose pods have these annotations in addition to those of the template, which win.
func (m *Maker) WithAnnotations(more map[string]string) *Maker {
	if len(more) == 0 {
		return m
	}
	annotations := make(map[string]any, len(more)+len(m.annotations))
	for key, value := range more {
		annotations[key] = value
	}
	maps.Copy(annotations, m.annotations)
	annotated := *m
	annotated.annotations = annotations
	annotated.decoded = nil
	return &annotated
}

// Pod builds a pod. The pod shares data with the template and with other pods of the Maker: send it, but make a deep
// copy before you change it.
func (m *Maker) Pod(p Params) *unstructured.Unstructured {
	spec := maps.Clone(m.spec)
	spec["affinity"] = pinned(m.affinity, p.Node)
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1",
		"kind":       "Pod",
		"metadata":   m.metadata(p),
		"spec":       spec,
	}}
}

// metadata copies labels, annotations and finalizers from the template, as upstream does. All other metadata of a
// template, such as a name or an owner, is ignored.
func (m *Maker) metadata(p Params) map[string]any {
	metadata := map[string]any{
		"name":            p.PodName,
		"generateName":    p.SetName + "-",
		"namespace":       p.Namespace,
		"labels":          m.podLabels(p),
		"ownerReferences": []any{ownerReference(p.Owner)},
	}
	if len(m.annotations) > 0 {
		metadata["annotations"] = m.annotations
	}
	if len(m.finalizers) > 0 {
		metadata["finalizers"] = m.finalizers
	}
	return metadata
}

func (m *Maker) podLabels(p Params) map[string]any {
	labels := make(map[string]any, len(m.labels)+2)
	maps.Copy(labels, m.labels)
	if p.TemplateGeneration != nil {
		labels[GenerationLabel] = strconv.FormatInt(*p.TemplateGeneration, 10)
	}
	if p.Hash != "" {
		labels[appsv1.DefaultDaemonSetUniqueLabelKey] = p.Hash
	}
	return labels
}

func ownerReference(owner metav1.OwnerReference) map[string]any {
	ref := map[string]any{
		"apiVersion": owner.APIVersion,
		"kind":       owner.Kind,
		"name":       owner.Name,
		"uid":        string(owner.UID),
	}
	if owner.Controller != nil {
		ref["controller"] = *owner.Controller
	}
	if owner.BlockOwnerDeletion != nil {
		ref["blockOwnerDeletion"] = *owner.BlockOwnerDeletion
	}
	return ref
}

// object returns the map at key, or an empty map if it is absent.
func object(m map[string]any, key string) map[string]any {
	value, _ := m[key].(map[string]any)
	return value
}
