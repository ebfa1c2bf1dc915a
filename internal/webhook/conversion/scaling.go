// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"maps"

	"k8s.io/apimachinery/pkg/util/json"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/kruise"
)

const (
	scaleKey       = "scaleStrategy"
	partitionedKey = "partitionedScaling"
	on             = "true"
)

// scalingKept is the content of the annotation everynode.KeptScaling: the values of a v1beta1 object that the
// annotation kruise.ProgressiveCreate cannot express. Nil means absent.
type scalingKept struct {
	Scale      any     `json:"scaleStrategy,omitempty"`
	Annotation *string `json:"annotation,omitempty"`
}

// readKept reads the annotation; ok is false if no conversion can have written it. Clients can write annotations, and
// this one is copied to the specification.
func readKept(text string) (kept scalingKept, ok bool) {
	if json.Unmarshal([]byte(text), &kept) != nil {
		return scalingKept{}, false
	}
	if kept.Scale == nil {
		return kept, true
	}
	strategy, isObject := kept.Scale.(map[string]any)
	partitioned, set := strategy[partitionedKey]
	if _, isBool := partitioned.(bool); !isObject || set && !isBool {
		return scalingKept{}, false
	}
	return kept, true
}

// progressive reports whether a v1beta1 object with this scaleStrategy and annotation requests progressive creation:
// the field decides; if it is not set, the annotation.
func progressive(scale any, annotation string) bool {
	strategy, _ := scale.(map[string]any)
	if value := strategy[partitionedKey]; value != nil {
		return value == true
	}
	return annotation == on
}

// scalingDown writes the field of v1beta1 to the annotation.
func (e edit) scalingDown() {
	e.unannotate(everynode.KeptScaling) // it is for v1alpha1, and there is no stored value here
	spec := e.at("spec")
	scale, hasScale := spec[scaleKey]
	annotation, hasAnnotation := e.annotation(kruise.ProgressiveCreate)
	if !hasScale && annotation != on {
		return
	}
	wanted := progressive(scale, annotation)
	if !wanted || hasAnnotation || !onlyPartitioned(scale) {
		e.keepScaling(scale, annotation, hasAnnotation)
	}
	delete(spec, scaleKey)
	switch {
	case wanted:
		e.annotate(kruise.ProgressiveCreate, on)
	case annotation == on:
		e.unannotate(kruise.ProgressiveCreate)
	}
}

// onlyPartitioned reports whether scale has no other value than progressive creation.
func onlyPartitioned(scale any) bool {
	strategy, _ := scale.(map[string]any)
	return len(strategy) == 1 && strategy[partitionedKey] == true
}

func (e edit) keepScaling(scale any, annotation string, hasAnnotation bool) {
	kept := scalingKept{Scale: scale}
	if hasAnnotation {
		kept.Annotation = &annotation
	}
	if data, err := json.Marshal(kept); err == nil {
		e.annotate(everynode.KeptScaling, string(data))
	}
}

// scalingUp writes the annotation of v1alpha1 to the field.
func (e edit) scalingUp() {
	text, hasKept := e.annotation(everynode.KeptScaling)
	e.unannotate(everynode.KeptScaling)
	annotation, _ := e.annotation(kruise.ProgressiveCreate)
	wanted := annotation == on
	spec := e.at("spec")
	if spec == nil {
		return
	}
	kept, readable := readKept(text)
	if hasKept && readable && e.restoreScaling(kept, wanted) {
		return
	}
	strategy, _ := spec[scaleKey].(map[string]any)
	if strategy == nil {
		strategy, _ = kept.Scale.(map[string]any)
	}
	strategy = maps.Clone(strategy)
	delete(strategy, partitionedKey)
	if wanted {
		if strategy == nil {
			strategy = map[string]any{}
		}
		strategy[partitionedKey] = true
		e.unannotate(kruise.ProgressiveCreate)
	}
	delete(spec, scaleKey)
	if len(strategy) > 0 {
		spec[scaleKey] = strategy
	}
}

// restoreScaling restores the kept values, unless the annotation has been changed since.
func (e edit) restoreScaling(kept scalingKept, wanted bool) bool {
	annotation := ""
	if kept.Annotation != nil {
		annotation = *kept.Annotation
	}
	if progressive(kept.Scale, annotation) != wanted {
		return false
	}
	if kept.Scale != nil {
		e.at("spec")[scaleKey] = kept.Scale
	}
	if kept.Annotation != nil {
		e.annotate(kruise.ProgressiveCreate, *kept.Annotation)
	} else {
		e.unannotate(kruise.ProgressiveCreate)
	}
	return true
}
