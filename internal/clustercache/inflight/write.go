// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/rollout"
)

// Verb is what a write does.
type Verb uint8

// The verbs.
const (
	Create Verb = iota + 1 // of a pod
	Delete                 // of a pod
	Edit                   // of a pod, other than of its owner
	Claim                  // an adoption or a release of a pod
)

// Key names a daemon set of a dialect.
type Key struct {
	Dialect, Namespace, Name string
}

// String is dialect/namespace/name.
func (k Key) String() string { return k.Dialect + "/" + k.Namespace + "/" + k.Name }

// Write is one write of ours.
type Write struct {
	Verb Verb
	// Set is the set of a create or a claim, and Node is the name of its node.
	Set  Key
	Node string
	// Pod is the name of the pod that is created.
	Pod string
	// UID is the UID of the pod; empty for a create.
	UID types.UID
	// At is when a delete began, by the clock of Snapshots.
	At rollout.Time
	// Until is the time after which the write can no longer take effect; 0 while it waits to be sent.
	Until rollout.Time
	// Next is the hash of the revision that the node of a pod gets next that is deleted for an update; empty for another delete.
	Next string
	// Takes reports whether an edit takes the pod out of use.
	Takes bool
	// Slow reports whether the answer to a create is still awaited.
	Slow bool
}

// Outcome is what is known about a write.
type Outcome uint8

// The outcomes.
const (
	TookEffect Outcome = iota + 1 // the answer, or a read, shows that it took effect
	NoEffect                      // it was refused or not sent, or a read shows that it took no effect
	Seen                          // an edit without a definite answer: the cache has what the pod is like now, with or without it
	NoResize                      // the API server does not let the resources of the pod be changed, now or later
	Unclear                       // it may have taken effect, or may until Write.Until
	Differed                      // a write was refused because another client has changed the pod
)
