// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"encoding/json"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
)

// annotationRule says what the value of an annotation has to be.
type annotationRule struct {
	key      string
	sentence string
	valid    func(string) bool
}

// annotationRules are those of the annotations that mean something to us.
func annotationRules() []annotationRule {
	return []annotationRule{
		{kruise.ProgressiveCreate, `must be "true" or "false"`, isBool},
		{kruise.PredownloadParallelism, "must be a whole number from 1", positive},
		{kruise.PredownloadTimeout, "must be a whole number of seconds from 1", positive},
		{kruise.PredownloadMinUpdatedReady, "must be a whole number from 0, or a percentage up to 100%", numberOrPercent},
		{appsv1.DeprecatedTemplateGeneration, "must be a whole number; better remove it, for it has no effect here", isInteger},
		{everynode.WaitForImage, `must be "true" or "false"`, isBool},
		{everynode.InPlaceGrace, "must be a whole number of seconds from 0", func(s string) bool { return s == "0" || positive(s) }},
		{everynode.KeptScaling, "must be as it was read, for conversion between the versions has written it; remove it", keptScaling},
		{everynode.MaxReplacing, "must be a whole number from 1, or a percentage from 1% to 100%", func(s string) bool {
			q := intstr.Parse(s)
			return numberOrPercent(s) && number(q) > 0
		}},
	}
}

// annotations judges the annotations that differ from those in old.
func (v *validator) annotations(old map[string]string) {
	annotations := annotationsOf(v.obj)
	for _, rule := range annotationRules() {
		value, ok := annotations[rule.key]
		before, was := old[rule.key]
		if ok && (!was || value != before) && !rule.valid(value) {
			v.report(field.Invalid(field.NewPath("metadata", "annotations").Key(rule.key), value, rule.sentence))
		}
	}
	v.waitForImage(annotations, old)
	if value, ok := annotations[appsv1.DeprecatedTemplateGeneration]; ok && isInteger(value) && value != old[appsv1.DeprecatedTemplateGeneration] {
		v.warn(field.NewPath("metadata", "annotations").Key(appsv1.DeprecatedTemplateGeneration),
			"has no effect here: which pods are up to date is told by their revision; remove it")
	}
}

// waitForImage refuses two annotations that would wait for each other: one that lets no pod be updated without its images, and one that
// lets no images be pulled without updated pods.
func (v *validator) waitForImage(annotations, old map[string]string) {
	least, ok := annotations[kruise.PredownloadMinUpdatedReady]
	both := ok && least != "0" && least != "0%" && annotations[everynode.WaitForImage] == "true"
	if both && (least != old[kruise.PredownloadMinUpdatedReady] || old[everynode.WaitForImage] != "true") {
		v.report(field.Forbidden(field.NewPath("metadata", "annotations").Key(everynode.WaitForImage),
			"may not be true together with "+kruise.PredownloadMinUpdatedReady+", for they would wait for each other; remove one of them"))
	}
}

func isBool(s string) bool { return s == "true" || s == "false" }

// annotationsOf are the annotations of obj that are strings; the API server sees to it that all are.
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

// keptScaling is whether an annotation can have been written by conversion: it becomes a part of the specification in v1beta1, and so has
// to be one that v1beta1 allows.
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

func positive(s string) bool {
	n, err := strconv.ParseInt(s, 10, 32)
	return err == nil && n > 0
}

func isInteger(s string) bool {
	_, err := strconv.ParseInt(s, 10, 64)
	return err == nil
}

func numberOrPercent(s string) bool {
	q := intstr.Parse(s)
	return len(quantity(&q, field.NewPath("value"))) == 0
}
