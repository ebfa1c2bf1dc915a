// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the older version of OpenKruise's Advanced DaemonSet, ImagePullJob and NodeImage. It is served, and
// stored as v1beta1; see internal/webhook/conversion for what becomes of the fields of a daemon set. Those of the other two
// are the same in both versions, so that the API server converts them alone.
//
// +kubebuilder:object:generate=true
// +groupName=apps.kruise.io
package v1alpha1
