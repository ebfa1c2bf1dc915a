// SPDX-License-Identifier: Apache-2.0

// Package conversion converts Advanced DaemonSets between the versions of the API.
//
// Vocabulary: up is from v1alpha1 to v1beta1, the version that is stored; down is the conversion back, for clients of
// v1alpha1.
//
// Rule: no data is lost. Objects stay undecoded, so that unknown fields are kept, and converting an object up and down,
// or down and up, returns the same object. Three fields differ between the versions:
//
//	v1alpha1                                             v1beta1
//	rollingUpdateType: Surging                           Standard, with maxSurge 1 and maxUnavailable 0 where they are unset
//	annotation progressive-create-pod: "true"            scaleStrategy.partitionedScaling: true
//	status.daemonSetHash                                 status.updateRevision
//
// If the other version cannot express a value, the value is kept in an annotation for the conversion back. The
// annotation is used only if the converted field has not been changed since; an edit takes precedence. So if a client
// disables something in one version, it is disabled in the other too.
package conversion
