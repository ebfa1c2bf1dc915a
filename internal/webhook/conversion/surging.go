// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"reflect"

	"k8s.io/apimachinery/pkg/util/json"

	"everynode.dev/everynode/api/everynode"
)

const (
	typeKey        = "rollingUpdateType"
	maxSurge       = "maxSurge"
	maxUnavailable = "maxUnavailable"

	surging  = "Surging"
	standard = "Standard"
)

// surgingKept is the content of the annotation everynode.KeptSurging. Example: an object with Surging and no other
// field has {"maxSurge":1,"maxUnavailable":0,"filled":["maxSurge","maxUnavailable"]}.
type surgingKept struct {
	// MaxSurge and MaxUnavailable are the values of the converted fields.
	MaxSurge       any `json:"maxSurge"`
	MaxUnavailable any `json:"maxUnavailable"`
	// Filled are the fields that were not set.
	Filled []string `json:"filled,omitempty"`
}

func (e edit) rollingUpdate() map[string]any {
	return e.at("spec", "updateStrategy", "rollingUpdate")
}

// surgingUp converts Surging to its form in v1beta1.
func (e edit) surgingUp() {
	e.unannotate(everynode.KeptSurging)
	rolling := e.rollingUpdate()
	if rolling[typeKey] != surging {
		return
	}
	kept := surgingKept{}
	for _, field := range []struct {
		key   string
		value int64
	}{{maxSurge, 1}, {maxUnavailable, 0}} {
		if rolling[field.key] == nil {
			rolling[field.key] = field.value
			kept.Filled = append(kept.Filled, field.key)
		}
	}
	rolling[typeKey] = standard
	kept.MaxSurge, kept.MaxUnavailable = rolling[maxSurge], rolling[maxUnavailable]
	if data, err := json.Marshal(kept); err == nil {
		e.annotate(everynode.KeptSurging, string(data))
	}
}

// surgingDown restores Surging, unless a client has changed the fields since.
func (e edit) surgingDown() {
	text, ok := e.annotation(everynode.KeptSurging)
	if !ok {
		return
	}
	e.unannotate(everynode.KeptSurging)
	var kept surgingKept
	rolling := e.rollingUpdate()
	if json.Unmarshal([]byte(text), &kept) != nil || rolling[typeKey] != standard || !kept.matches(rolling) {
		return
	}
	rolling[typeKey] = surging
	for _, key := range kept.Filled {
		if key == maxSurge || key == maxUnavailable {
			delete(rolling, key)
		}
	}
}

func (k surgingKept) matches(rolling map[string]any) bool {
	return same(k.MaxSurge, rolling[maxSurge]) && same(k.MaxUnavailable, rolling[maxUnavailable])
}

// same compares two JSON values: the same number may have different Go types.
func same(a, b any) bool {
	if reflect.DeepEqual(a, b) {
		return true
	}
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}
