// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/agent/pull"
)

// These let simulated nodes run the same queue: they read and write NodeImages as the agent does, and have no container runtime.

// WantsOf are what a specification asks for.
func WantsOf(spec v1beta1.NodeImageSpec) []pull.Want {
	wants, _ := wantsOf(spec)
	return wants
}

// StatesOf are what a status remembers.
func StatesOf(status *v1beta1.NodeImageStatus) []pull.State { return statesOf(status) }

// StatusOf writes states down, where before was written.
func StatusOf(states []pull.State, before *v1beta1.NodeImageStatus) *v1beta1.NodeImageStatus {
	return statusOf(states, before)
}

// PatchOf is a merge patch that makes one status another, for the object with that UID; nil when there is nothing to change.
func PatchOf(uid types.UID, before, after *v1beta1.NodeImageStatus) ([]byte, error) {
	return patchOf(uid, before, after)
}
