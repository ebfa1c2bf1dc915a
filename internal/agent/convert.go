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

// LocalToken reads the token of the owner of a node, and makes one if there is none.
func LocalToken(path string) (string, error) { return localToken(path) }

// Prepuller requests the images that the pods of a simulated node ask for.
type Prepuller struct{ p *prepuller }

// NewPrepuller returns a Prepuller for a node with these pods. notify is called when the wants have changed.
func NewPrepuller(client *kube.Client, pods func() ([]*corev1.Pod, bool, error), notify func()) *Prepuller {
	p := newPrepuller(client, notify)
	p.pods = pods
	return &Prepuller{p}
}

// Run works until ctx ends.
func (a *Prepuller) Run(ctx context.Context) { a.p.run(ctx) }

// Notify reports that pods have changed.
func (a *Prepuller) Notify() { a.p.notify() }

// Wants are the images that pods ask for.
func (a *Prepuller) Wants() []pull.Want {
	wants, _ := a.p.wants()
	return wants
}

// Observe takes in the state of the pulls.
func (a *Prepuller) Observe(states []pull.State) { a.p.observe(states) }
