// SPDX-License-Identifier: Apache-2.0

// Package ota checks, for a pod that is upgraded when the owner of its node decides, whether there is a newer revision, and the state of its images. The API of a node asks it on the node, and `kubectl everynode ota` through the cluster, so that what one of them refuses the other does, too.
//
// Vocabulary: the next revision of a pod is the one that it can be upgraded to, "" when that has no name here.
//
// Rule: it reads the pod alone, and returns reasons without texts: the callers have different ones.
package ota

import (
	corev1 "k8s.io/api/core/v1"

	v2 "everynode.dev/everynode/api/agent/v2"
	"everynode.dev/everynode/api/openyurt"
)

// Condition is the condition of that type; nil where there is none.
func Condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == kind {
			return c
		}
	}
	return nil
}

// Announced returns the next revision in the conditions of a pod; old reports whether there is one, and said whether the pod has such a condition.
func Announced(pod *corev1.Pod) (next string, old, said bool) {
	c := Condition(pod, openyurt.PodNeedUpgrade)
	if c == nil {
		return "", false, false
	}
	return revisionIn(c), c.Status == corev1.ConditionTrue, true
}

// revisionIn is the revision that a condition names, "" when it names none.
func revisionIn(c *corev1.PodCondition) string {
	hash, _ := openyurt.ParseRevision(c.Message)
	return hash
}

// ImagesOf is how far the images of the next revision are.
func ImagesOf(pod *corev1.Pod, next string) v2.Images {
	c := Condition(pod, openyurt.PodImageReady)
	if c == nil {
		return v2.Images{State: v2.ImagesNotRequested}
	}
	images := v2.Images{Revision: revisionIn(c)}
	switch {
	case c.Status != corev1.ConditionTrue && c.Reason != "":
		images.State, images.Message = v2.ImagesFailed, c.Message
	case next != "" && images.Revision != next:
		images.State = v2.ImagesOutdated
	case c.Status == corev1.ConditionTrue:
		images.State = v2.ImagesReady
	default:
		images.State = v2.ImagesPulling
	}
	return images
}

// Refusal returns the reason why a pod is not upgraded now; "" if it can be upgraded, according to its conditions. With old, there is a newer revision.
func Refusal(pod *corev1.Pod, next string, old bool) v2.Reason {
	switch {
	case pod.DeletionTimestamp != nil:
		return v2.ReasonDeleting
	case !old:
		return v2.ReasonUpToDate
	case !imagesThere(pod, next):
		return v2.ReasonImagesNotReady
	}
	return ""
}

// imagesThere reports whether the images of the next revision are present, or were never requested: after a request the upgrade waits for them.
func imagesThere(pod *corev1.Pod, next string) bool {
	c := Condition(pod, openyurt.PodImageReady)
	return c == nil || c.Status == corev1.ConditionTrue && revisionIn(c) == next
}

// Asked reports whether the images of a pod need no request: a pull in progress, or one that has succeeded, does not begin again. A failed pull does.
func Asked(pod *corev1.Pod, next string) bool {
	state := ImagesOf(pod, next).State
	return state == v2.ImagesPulling || state == v2.ImagesReady
}
