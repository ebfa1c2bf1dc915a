// SPDX-License-Identifier: Apache-2.0

// Package podtemplate makes pods from a pod template that stays undecoded.
//
// Vocabulary: the template is the value of spec.template of a daemon set, as the API server served it; a Maker is a
// template prepared for making many pods; Params are what differs from pod to pod.
//
// Rule: a template is data. Only what has to change is read; everything else, also fields that are newer than our
// types, goes into the pod as it is. The pod is the one that the native controller of Kubernetes 1.37.1 makes, but for
// its name, which is derived instead of random (see revision.PodKey.Name), so that making it twice is harmless.
package podtemplate
