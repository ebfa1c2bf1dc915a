// SPDX-License-Identifier: Apache-2.0

// Package conversion turns Advanced DaemonSets of one version of the API into those of another.
//
// Vocabulary: up is from v1alpha1 to v1beta1, the version that is stored; down is the way back, for whoever asks for v1alpha1.
//
// Rule: nothing is lost. Objects stay undecoded, so that what no version of our types knows passes through; and an object
// that goes up and down again, or down and up, is the one it was. Three things have another shape in the other version:
//
//	v1alpha1                                             v1beta1
//	rollingUpdateType: Surging                           Standard, with maxSurge 1 and maxUnavailable 0 where they are unset
//	annotation progressive-create-pod: "true"            scaleStrategy.partitionedScaling: true
//	status.daemonSetHash                                 status.updateRevision
//
// Where the shape of the other version can say less, what is left is kept in an annotation of Everynode's for the way back.
// It counts only as long as nobody changed what it was made from; an edit always wins. So turning something off in one
// version turns it off in the other.
package conversion
