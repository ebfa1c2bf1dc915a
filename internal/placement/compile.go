// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// podSpec is the part of a pod spec that placement reads.
type podSpec struct {
	NodeName     string              `json:"nodeName"`
	NodeSelector map[string]string   `json:"nodeSelector"`
	Affinity     *affinity           `json:"affinity"`
	Tolerations  []corev1.Toleration `json:"tolerations"`
	HostNetwork  bool                `json:"hostNetwork"`
}

type affinity struct {
	NodeAffinity *nodeAffinity `json:"nodeAffinity"`
}

type nodeAffinity struct {
	Required *corev1.NodeSelector `json:"requiredDuringSchedulingIgnoredDuringExecution"`
}

// Compile compiles the placement rules of an undecoded pod spec.
//
// There are two kinds of error. If a field has the wrong type, it cannot be read, and the Rules are nil. If a node
// affinity has the right types but is invalid (for example, an unknown operator), the Rules are usable, and the invalid
// terms select no node, as upstream does.
func Compile(spec map[string]any) (*Rules, error) {
	typed, err := decode(spec)
	if err != nil {
		return nil, fmt.Errorf("reading spec.template.spec: %w", err)
	}
	r := &Rules{nodeName: typed.NodeName}
	own, ok := spec["tolerations"].([]any)
	if !ok && len(typed.Tolerations) > 0 {
		return nil, fmt.Errorf("reading spec.template.spec: field tolerations: %T is not a list", spec["tolerations"])
	}
	r.typed, r.undecoded = withAutomatic(typed.Tolerations, own, typed.HostNetwork)
	return r, r.compileAffinity(typed)
}

// Same reports whether two rules give the same result for every node. Either may be nil.
func (r *Rules) Same(o *Rules) bool {
	if r == nil || o == nil {
		return r == o
	}
	return r.nodeName == o.nodeName && reflect.DeepEqual(r.nodeSelector, o.nodeSelector) && reflect.DeepEqual(r.required, o.required) &&
		reflect.DeepEqual(r.typed, o.typed)
}

func (r *Rules) compileAffinity(spec *podSpec) error {
	full := &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
	if spec.Affinity != nil && spec.Affinity.NodeAffinity != nil {
		full.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = spec.Affinity.NodeAffinity.Required
	}
	required := full.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	r.nodeSelector, r.required = spec.NodeSelector, required
	r.hasAffinity = len(spec.NodeSelector) > 0 || required != nil
	r.affinity = nodeaffinity.NewRequiredNodeAffinity(spec.NodeSelector, full)
	if required == nil {
		return nil
	}
	path := field.NewPath("spec", "template", "spec", "affinity", "nodeAffinity",
		"requiredDuringSchedulingIgnoredDuringExecution")
	_, err := nodeaffinity.NewNodeSelector(required, field.WithPath(path))
	return err
}

// decode reads only the fields that placement needs, because the spec may be large or have fields newer than our types.
// It reads them one at a time, so that an error names its field.
func decode(spec map[string]any) (*podSpec, error) {
	typed := &podSpec{}
	fields := []struct {
		name string
		into any
	}{
		{"nodeName", &typed.NodeName},
		{"nodeSelector", &typed.NodeSelector},
		{"affinity", &typed.Affinity},
		{"tolerations", &typed.Tolerations},
		{"hostNetwork", &typed.HostNetwork},
	}
	for _, f := range fields {
		value, ok := spec[f.name]
		if !ok || value == nil {
			continue
		}
		data, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", f.name, err)
		}
		if err := json.Unmarshal(data, f.into); err != nil {
			return nil, fmt.Errorf("field %s: %w", f.name, err)
		}
	}
	return typed, nil
}
