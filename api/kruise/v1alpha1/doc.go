// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the older version of OpenKruise's Advanced DaemonSet, ImagePullJob and NodeImage. It is served,
// and stored as v1beta1; see internal/webhook/conversion for the fields of a daemon set. The fields of the other two
// are the same in both versions, so the API server needs no webhook to convert them.
//
// +kubebuilder:object:generate=true
// +groupName=apps.kruise.io
package v1alpha1
