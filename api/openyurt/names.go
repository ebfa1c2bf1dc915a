// SPDX-License-Identifier: Apache-2.0

// Package openyurt has the names by which OpenYurt speaks of DaemonSets of apps/v1: annotations on the DaemonSet, and conditions of its
// pods. Each value that has a form of its own has one pair of functions here that reads and writes it.
//
// Rule: the functions say what a text means in OpenYurt, and nothing about what is done with it.
package openyurt

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/api/annotation"
)

// Annotations on a DaemonSet of apps/v1 whose spec.updateStrategy.type is OnDelete.
const (
	// UpdateStrategy says how old pods are updated: AdvancedRollingUpdate, which may be written as Auto too, or OTA, in upper or lower case.
	UpdateStrategy = "apps.openyurt.io/update-strategy"
	// MaxUnavailable says at how many nodes the pod may be unavailable at once with AdvancedRollingUpdate: a number from 1, or a percentage
	// from 1% to 100% of the nodes that should run the pod, rounded up. Without the annotation, or with an empty value, it is 10%.
	MaxUnavailable = "apps.openyurt.io/max-unavailable"
)

// Strategy is a value of the annotation UpdateStrategy.
type Strategy string

// The strategies.
const (
	// AdvancedRollingUpdate replaces old pods within the budget, and leaves out nodes that are not ready.
	AdvancedRollingUpdate Strategy = "AdvancedRollingUpdate"
	// OTA tells each pod whether there is a newer revision, and leaves it to the owner of the node to delete it.
	OTA Strategy = "OTA"
)

// auto is another name that OpenYurt has for AdvancedRollingUpdate.
const auto = "Auto"

// ParseStrategy reads a value of UpdateStrategy, whatever the case of its letters; ok is false for an unknown one.
func ParseStrategy(text string) (s Strategy, ok bool) {
	if strings.EqualFold(text, auto) {
		return AdvancedRollingUpdate, true
	}
	for _, known := range []Strategy{AdvancedRollingUpdate, OTA} {
		if strings.EqualFold(text, string(known)) {
			return known, true
		}
	}
	return "", false
}

// Format is the value of UpdateStrategy.
func (s Strategy) Format() string { return string(s) }

// UpdateStrategyValue is the value of UpdateStrategy.
var UpdateStrategyValue = annotation.Of(annotation.Rule{
	Key: UpdateStrategy, For: annotation.PlainOnly, Want: string(AdvancedRollingUpdate + " or " + OTA),
	Correct: string("set it to " + AdvancedRollingUpdate + " or " + OTA + ", or remove it"),
}, ParseStrategy)

// DefaultMaxUnavailable is what counts without the annotation MaxUnavailable.
const DefaultMaxUnavailable = "10%"

// MaxUnavailableValue is the value of MaxUnavailable. OpenYurt reads 0 as 10%; here it is an error, because nobody who writes 0 expects 10%.
var MaxUnavailableValue = annotation.Of(annotation.Rule{
	Key: MaxUnavailable, For: annotation.PlainOnly, Want: "a whole number from 1, or a percentage from 1% to 100%",
	Correct: "set it to a whole number from 1, or a percentage from 1% to 100%, or remove it for " + DefaultMaxUnavailable,
}, func(text string) (annotation.Quantity, bool) {
	return annotation.QuantityFrom(1)(cmp.Or(text, DefaultMaxUnavailable))
})

// Annotations are those that people set.
func Annotations() []annotation.Rule {
	return []annotation.Rule{UpdateStrategyValue.Rule, MaxUnavailableValue.Rule}
}

// Conditions of a pod.
const (
	// PodNeedUpgrade is True while there is a newer revision than the pod's, and False while there is none. The message names the newest
	// revision.
	PodNeedUpgrade corev1.PodConditionType = "PodNeedUpgrade"
	// PodImageReady stands on a pod only after somebody has asked for the images of the newest revision to be pulled: False while they are not there,
	// and then True. The message names the revision.
	PodImageReady corev1.PodConditionType = "PodImageReady"
)

// Reasons of the condition PodImageReady; while a pull that was asked for has not ended there is none.
const (
	PullImageSuccess = "PullImageSuccess" // True: all images are there
	PullImageFail    = "PullImageFail"    // False: the pull has failed
)

// versionPrefix comes before the name of a revision in the message of a condition.
const versionPrefix = "controllerrevision: "

// FormatRevision is the message of a condition about the revision with that hash, as in the label controller-revision-hash.
func FormatRevision(hash string) string { return versionPrefix + hash }

// ParseRevision is the hash in the message of a condition; ok is false when the message names none.
func ParseRevision(message string) (hash string, ok bool) {
	hash, ok = strings.CutPrefix(message, versionPrefix)
	if !ok || hash == "" {
		return "", false
	}
	return hash, true
}
