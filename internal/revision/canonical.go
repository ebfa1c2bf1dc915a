// SPDX-License-Identifier: Apache-2.0

package revision

import (
	stdjson "encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/json"
)

// canonical returns the canonical form of a template: the form in which Kubernetes 1.37.1 stores it, and in addition
// the fields that its types do not have.
func canonical(template map[string]any) (map[string]any, error) {
	typed, err := decodeTyped(template)
	if err != nil {
		return nil, err
	}
	data, err := stdjson.Marshal(typed)
	if err != nil {
		return nil, fmt.Errorf("encoding the pod template: %w", err)
	}
	var form map[string]any
	// encoding/json would round large integers. OpenKruise does that, Kubernetes does not.
	if err := json.Unmarshal(data, &form); err != nil {
		return nil, fmt.Errorf("decoding the pod template: %w", err)
	}
	knowledge{}.addUnknown(form, template, templateType())
	return form, nil
}

// decodeTyped decodes the fields of a template that our types have.
func decodeTyped(template map[string]any) (*corev1.PodTemplateSpec, error) {
	data, err := json.Marshal(template)
	if err != nil {
		return nil, fmt.Errorf("encoding the pod template: %w", err)
	}
	typed := &corev1.PodTemplateSpec{}
	// Unlike encoding/json, this decoder matches field names case-sensitively, as the API server does.
	if err := json.Unmarshal(data, typed); err != nil {
		return nil, fmt.Errorf("decoding the pod template: %w", err)
	}
	return typed, nil
}
