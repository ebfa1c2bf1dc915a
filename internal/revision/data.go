// SPDX-License-Identifier: Apache-2.0

package revision

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"

	"k8s.io/apimachinery/pkg/util/json"
)

// patchKey and patchReplace make a strategic merge patch replace the template instead of merging into it.
const (
	patchKey     = "$patch"
	patchReplace = "replace"
)

// Data returns the data of the revision of template: exactly the bytes that Kubernetes 1.37.1 writes. Kubernetes
// compares bytes when it adopts the set, and would restart every pod if they differ. Fields that our types do not have
// are kept.
func Data(template map[string]any) ([]byte, error) {
	form, err := canonical(withoutPatch(template))
	if err != nil {
		return nil, err
	}
	return encode(form)
}

// encode encodes a template as the data of a revision. The template must belong to the caller.
func encode(form map[string]any) ([]byte, error) {
	form[patchKey] = patchReplace
	data, err := stdjson.Marshal(map[string]any{"spec": map[string]any{"template": form}})
	if err != nil {
		return nil, fmt.Errorf("encoding revision data: %w", err)
	}
	return data, nil
}

// Decode returns the template in the data of a revision, whichever controller wrote it.
func Decode(data []byte) (map[string]any, error) {
	var decoded struct {
		Spec struct {
			Template map[string]any `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(data, &decoded); err != nil {
		return nil, fmt.Errorf("decoding revision data: %w", err)
	}
	if decoded.Spec.Template == nil {
		return nil, errors.New("decoding revision data: there is no object at spec.template")
	}
	template := withoutPatch(decoded.Spec.Template)
	clampObject(template)
	return template, nil
}

// clampObject reverts in place what OpenKruise does to the highest integer. Users write 9223372036854775807 as
// tolerationSeconds for "forever"; after conversion to a float64 it becomes 9223372036854775808, which no field of our
// types can hold.
func clampObject(object map[string]any) {
	for key, value := range object {
		object[key] = clamped(value)
	}
}

func clamped(value any) any {
	switch value := value.(type) {
	case map[string]any:
		clampObject(value)
	case []any:
		for i := range value {
			value[i] = clamped(value[i])
		}
	case float64:
		if value == math.MaxInt64 {
			return int64(math.MaxInt64)
		}
	}
	return value
}

// withoutPatch returns template without the patch directive that a revision adds to it.
func withoutPatch(template map[string]any) map[string]any {
	if _, ok := template[patchKey]; !ok {
		return template
	}
	template = maps.Clone(template)
	delete(template, patchKey)
	return template
}
