// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"everynode.dev/everynode/api/annotation"
	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
)

// rules are the rules for the values of the annotations of an Advanced DaemonSet.
func rules() []annotation.Rule {
	byConversion := annotation.Rule{
		Key: everynode.KeptScaling, Want: "as conversion between the versions has written it; do not edit it: restore or remove it", Allows: keptScaling,
	}
	return slices.Concat(kruise.Annotations(), []annotation.Rule{annotation.TemplateGeneration.Rule}, everynode.Annotations(), []annotation.Rule{byConversion})
}

// annotations validates the annotations that differ from those in old.
func (v *validator) annotations(old map[string]string) {
	annotations := annotationsOf(v.obj)
	for _, rule := range rules() {
		value, ok := annotations[rule.Key]
		before, was := old[rule.Key]
		if ok && (!was || value != before) && rule.For != annotation.PlainOnly && !rule.Allows(value) {
			v.report(field.Invalid(field.NewPath("metadata", "annotations").Key(rule.Key), value, "must be "+rule.Want))
		}
	}
	v.waitForImage(annotations, old)
	generation := annotation.TemplateGeneration
	if value, ok := annotations[generation.Key]; ok && generation.Allows(value) && value != old[generation.Key] {
		v.warn(field.NewPath("metadata", "annotations").Key(generation.Key),
			"has no effect here: the revision of a pod shows whether it is up to date; remove it")
	}
}

// waitForImage rejects two annotations that would wait for each other: one updates no pod before its images are pulled,
// and the other pulls no images before pods are updated.
func (v *validator) waitForImage(annotations, old map[string]string) {
	least := annotations[kruise.PredownloadMinUpdatedReady]
	q, ok := kruise.PredownloadMinUpdatedReadyValue.Parse(least)
	wait, _ := everynode.WaitForImageValue.Parse(annotations[everynode.WaitForImage])
	if both := wait && ok && q.Value > 0; both && (least != old[kruise.PredownloadMinUpdatedReady] || old[everynode.WaitForImage] != "true") {
		v.report(field.Forbidden(field.NewPath("metadata", "annotations").Key(everynode.WaitForImage),
			"may not be true together with "+kruise.PredownloadMinUpdatedReady+", because they would wait for each other; remove one of them"))
	}
}

// annotationsOf returns the annotations of obj. The API server ensures that all are strings.
func annotationsOf(obj map[string]any) map[string]string {
	metadata, _ := obj["metadata"].(map[string]any)
	fields, _ := metadata["annotations"].(map[string]any)
	annotations := make(map[string]string, len(fields))
	for key, value := range fields {
		if text, ok := value.(string); ok {
			annotations[key] = text
		}
	}
	return annotations
}

// keptScaling reports whether conversion can have written an annotation: its content becomes a part of the
// specification in v1beta1, and so must be valid there.
func keptScaling(s string) bool {
	var kept map[string]any
	if json.Unmarshal([]byte(s), &kept) != nil {
		return false
	}
	scale := map[string]any{}
	for key, value := range kept {
		_, isText := value.(string)
		switch {
		case key == "scaleStrategy":
			scale[key] = value
		case key != "annotation" || !isText:
			return false
		}
	}
	unknown, err := decodeStrictly(map[string]any{"spec": scale}, &v1beta1.DaemonSet{})
	return err == nil && len(unknown) == 0
}
