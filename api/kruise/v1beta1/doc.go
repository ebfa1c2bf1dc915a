// SPDX-License-Identifier: Apache-2.0

// Package v1beta1 is the stored version of OpenKruise's Advanced DaemonSet, ImagePullJob and NodeImage. It has the same
// JSON names with the same meaning. The pod template stays undecoded, so that fields newer than our types are kept.
//
// +kubebuilder:object:generate=true
// +groupName=apps.kruise.io
package v1beta1
