// SPDX-License-Identifier: Apache-2.0

// Package podtemplate builds pods from an undecoded pod template.
//
// Vocabulary: the template is the value of spec.template of a DaemonSet, as the API server returned it; a Maker is a
// template that is prepared for building many pods; Params are the values that differ between pods.
//
// Rule: a template is data. Only the fields that must change are read; all other fields, including fields newer than
// our types, are copied to the pod. Where our types have everything of a template, the pod is also built in these, for
// protobuf (Maker.Decode). The pod is the same as the one that the DaemonSet controller of Kubernetes 1.37.1 creates,
// except for its name, which is derived instead of random (see revision.PodKey.Name), so that creating it twice is harmless.
package podtemplate
