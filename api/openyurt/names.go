// SPDX-License-Identifier: Apache-2.0

// Package openyurt has OpenYurt's names for DaemonSets of apps/v1: annotations on the DaemonSet, and conditions of its
// pods. Each value with its own format has a pair of functions here that parses and formats it.
//
// Rule: the functions only parse and format; they do not decide what follows from a value.
package openyurt

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/api/annotation"
)

// Annotations on a DaemonSet of apps/v1 whose spec.updateStrategy.type is OnDelete.
const (
	// UpdateStrategy defines how old pods are updated: AdvancedRollingUpdate, which may be written as Auto too, or OTA,
	// in upper or lower case.
	UpdateStrategy = "apps.openyurt.io/update-strategy"
	// MaxUnavailable is the maximum number of nodes on which the pod may be unavailable at once with
	// AdvancedRollingUpdate: a number from 1, or a percentage from 1% to 100% of the nodes that should run the pod,
	// rounded up. Without the annotation, or with an empty value, it is 10%.
	MaxUnavailable = "apps.openyurt.io/max-unavailable"
)

// Strategy is a value of the annotation UpdateStrategy.
type Strategy string

// The strategies.
const (
	// AdvancedRollingUpdate replaces old pods within the budget, and skips nodes that are not ready.
	AdvancedRollingUpdate Strategy = "AdvancedRollingUpdate"
	// OTA sets a condition of each pod that reports whether there is a newer revision; the owner of the node decides
	// when to delete the pod.
	OTA Strategy = "OTA"
)

// auto is another name of AdvancedRollingUpdate in OpenYurt.
const auto = "Auto"

// ParseStrategy parses a value of UpdateStrategy, ignoring case; ok is false for an unknown value.
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

// Asks reports whether the annotations of a DaemonSet with the strategy OnDelete ask OpenYurt to update it.
func Asks(annotations map[string]string) bool {
	_, asks := ParseStrategy(annotations[UpdateStrategy])
	return asks
}

// Format returns the value of UpdateStrategy.
func (s Strategy) Format() string { return string(s) }

// UpdateStrategyValue is the value of UpdateStrategy.
var UpdateStrategyValue = annotation.Of(annotation.Rule{
	Key: UpdateStrategy, For: annotation.PlainOnly, Want: string(AdvancedRollingUpdate + " or " + OTA),
	Correct: string("set it to " + AdvancedRollingUpdate + " or " + OTA + ", or remove it"),
}, ParseStrategy)

// DefaultMaxUnavailable is the default of the annotation MaxUnavailable.
const DefaultMaxUnavailable = "10%"

// MaxUnavailableValue is the value of MaxUnavailable. OpenYurt reads 0 as 10%; here it is an error, because a user who writes 0 does not expect 10%.
var MaxUnavailableValue = annotation.Of(annotation.Rule{
	Key: MaxUnavailable, For: annotation.PlainOnly, Want: "a whole number from 1, or a percentage from 1% to 100%",
	Correct: "set it to a whole number from 1, or a percentage from 1% to 100%, or remove it for " + DefaultMaxUnavailable,
}, func(text string) (annotation.Quantity, bool) {
	return annotation.QuantityFrom(1)(cmp.Or(text, DefaultMaxUnavailable))
})

// Annotations returns the rules for the annotations that users set.
func Annotations() []annotation.Rule {
	return []annotation.Rule{UpdateStrategyValue.Rule, MaxUnavailableValue.Rule}
}

// Conditions of a pod.
const (
	// PodNeedUpgrade is True if there is a newer revision than that of the pod, otherwise False. The message has the
	// newest revision.
	PodNeedUpgrade corev1.PodConditionType = "PodNeedUpgrade"
	// PodImageReady is set on a pod when a pull of the images of the newest revision is requested: False until they are
	// on the node, then True. The message has the revision.
	PodImageReady corev1.PodConditionType = "PodImageReady"
)

// Reasons of the condition PodImageReady; while a pull is in progress there is none.
const (
	PullImageSuccess = "PullImageSuccess" // True: all images are there
	PullImageFail    = "PullImageFail"    // False: the pull has failed
)

// versionPrefix is the prefix of the name of a revision in the message of a condition.
const versionPrefix = "controllerrevision: "

// FormatRevision returns the message of a condition about the revision with that hash, as in the label
// controller-revision-hash.
func FormatRevision(hash string) string { return versionPrefix + hash }

// ParseRevision returns the hash in the message of a condition; ok is false if there is none.
func ParseRevision(message string) (hash string, ok bool) {
	hash, ok = strings.CutPrefix(message, versionPrefix)
	if !ok || hash == "" {
		return "", false
	}
	return hash, true
}
