// SPDX-License-Identifier: Apache-2.0

package podtemplate

import (
	"encoding/json"
	"maps"
	"reflect"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "k8s.io/apimachinery/pkg/util/json"
)

// Decode returns a Maker that can also build decoded pods, unless these would lose fields of the template.
func (m *Maker) Decode() *Maker {
	decoding := *m
	decoding.decoded = m.decode()
	return &decoding
}

// Decoded builds the same pod as Pod does, in our types, for a client that sends protobuf: this costs the API server less to read, and us less to
// write. It is nil if the Maker is not one of Decode, or if anything of the template would be lost on the way, such as a field that is newer than our
// types. Then the pod is to be sent as Pod builds it. The pod shares data with other pods of the Maker: send it, but make a deep copy before you change it.
func (m *Maker) Decoded(p Params) *corev1.Pod {
	template := m.decoded
	if template == nil {
		return nil
	}
	pod := *template
	pod.Name, pod.GenerateName, pod.Namespace = p.PodName, p.SetName+"-", p.Namespace
	pod.OwnerReferences = []metav1.OwnerReference{p.Owner}
	pod.Labels = make(map[string]string, len(template.Labels)+2)
	maps.Copy(pod.Labels, template.Labels)
	if p.TemplateGeneration != nil {
		pod.Labels[GenerationLabel] = strconv.FormatInt(*p.TemplateGeneration, 10)
	}
	if p.Hash != "" {
		pod.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] = p.Hash
	}
	pod.Spec.Affinity = pinnedTo(template.Spec.Affinity, p.Node)
	return &pod
}

// pinnedTo returns the affinity of the decoded template, which has the one term that selects a node (see
// pinned), for that node. The objects on the path to the name are copied; the original is not changed.
func pinnedTo(affinity *corev1.Affinity, node string) *corev1.Affinity {
	all, nodes, required := *affinity, *affinity.NodeAffinity, *affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	field := required.NodeSelectorTerms[0].MatchFields[0]
	field.Values = []string{node}
	required.NodeSelectorTerms = []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{field}}}
	nodes.RequiredDuringSchedulingIgnoredDuringExecution, all.NodeAffinity = &required, &nodes
	return &all
}

// decode decodes the pod of a node without a name; nil if fields are lost. The hash is set because of
// templates without labels: an empty map is not the same as no map.
func (m *Maker) decode() *corev1.Pod {
	pod, ok := strictly(m.Pod(Params{Hash: "any"}))
	if !ok || !survives(pod) {
		return nil
	}
	pod.Labels = make(map[string]string, len(m.labels))
	for name, value := range m.labels {
		pod.Labels[name], _ = value.(string) // the decoder takes nothing else
	}
	return pod
}

// strictly decodes a pod as the API server decodes what it is sent as JSON. It is not ok if the pod has a field that our types do not have.
func strictly(made *unstructured.Unstructured) (pod *corev1.Pod, ok bool) {
	const refuseUnknown = true
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(made.Object, &corev1.Pod{}, refuseUnknown); err != nil {
		return nil, false
	}
	sent, err := json.Marshal(made.Object)
	if err != nil {
		return nil, false
	}
	pod = &corev1.Pod{}
	return pod, kjson.Unmarshal(sent, pod) == nil
}

// survives reports whether the API server reads exactly the same pod from protobuf: protobuf has no empty lists, for example.
func survives(pod *corev1.Pod) bool {
	encoded, err := pod.Marshal()
	if err != nil {
		return false
	}
	received := &corev1.Pod{}
	if err := received.Unmarshal(encoded); err != nil {
		return false
	}
	received.TypeMeta = pod.TypeMeta // which is sent in addition
	return reflect.DeepEqual(pod, received)
}
