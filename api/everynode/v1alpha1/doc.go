// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 has the types of Everynode's own API group: the rollout policy of daemon sets, and the approvals that it may ask for.
//
// Every field has an effect. What is planned and does not work yet has no field, so the API server rejects it, or drops it for clients that do not ask for
// strict validation.
//
// +kubebuilder:object:generate=true
// +groupName=everynode.dev
package v1alpha1
