// SPDX-License-Identifier: Apache-2.0

// Package v1beta1 is the version that is stored of OpenKruise's Advanced DaemonSet, ImagePullJob and NodeImage. It is
// wire-compatible: the same JSON names, the same meaning. The pod template stays undecoded, so that fields that are newer
// than our types survive.
//
// +kubebuilder:object:generate=true
// +groupName=apps.kruise.io
package v1beta1
