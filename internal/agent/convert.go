// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/agent/kube"
	"everynode.dev/everynode/internal/agent/pull"
)

// These functions let simulated nodes use the same queue: they read and write NodeImages like the agent, and have no
// container runtime.

// WantsOf returns the images that a specification requests.
func WantsOf(spec v1beta1.NodeImageSpec) []pull.Want {
	wants, _ := wantsOf(spec)
	return wants
}

// StatesOf returns the states in a status.
func StatesOf(status *v1beta1.NodeImageStatus) []pull.State { return statesOf(status) }

// StatusOf converts states to a status; before is the last status.
func StatusOf(states []pull.State, before *v1beta1.NodeImageStatus) *v1beta1.NodeImageStatus {
	return statusOf(states, before)
}

// PatchOf returns a merge patch from one status to another, for the object with that UID; nil if there is no
// difference.
func PatchOf(uid types.UID, before, after *v1beta1.NodeImageStatus) ([]byte, error) {
	return patchOf(uid, before, after)
}

// LocalToken reads the token of the owner of a node, and creates it if it does not exist.
func LocalToken(path string) (string, error) { return localToken(path) }

// Prepuller requests the images for the pods of a simulated node.
type Prepuller struct{ p *prepuller }

// NewPrepuller returns a Prepuller for a node with these pods. notify is called when the wants have changed.
func NewPrepuller(client *kube.Client, pods func() ([]*corev1.Pod, bool, error), notify func()) *Prepuller {
	p := newPrepuller(client, notify)
	p.pods = pods
	return &Prepuller{p}
}

// Run runs until ctx ends.
func (a *Prepuller) Run(ctx context.Context) { a.p.run(ctx) }

// Notify reports that pods have changed.
func (a *Prepuller) Notify() { a.p.notify() }

// Wants returns the images that pods request.
func (a *Prepuller) Wants() []pull.Want {
	wants, _ := a.p.wants()
	return wants
}

// Observe updates the state of the pulls.
func (a *Prepuller) Observe(states []pull.State) { a.p.observe(states) }
