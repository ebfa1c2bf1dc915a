// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the older version of the Advanced DaemonSet of OpenKruise. It is served, and stored as v1beta1; see
// internal/webhook/conversion for what becomes of its fields.
//
// +kubebuilder:object:generate=true
// +groupName=apps.kruise.io
package v1alpha1
