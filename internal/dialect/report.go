// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// Report is everything that the status of a set can be made from.
type Report struct {
	Now time.Time
	// Numbers and ObservedGeneration are those to be written; CollisionCount is nil unless it is to be raised.
	Numbers            rollout.Status
	ObservedGeneration int64
	CollisionCount     *int32
	// UpdateRevision is the newest revision, as in the label controller-revision-hash of its pods; empty when it is not known.
	UpdateRevision string
	// Snapshot and Plan are those of the decision; nil when none could be made.
	Snapshot *rollout.Snapshot
	Plan     *rollout.Plan
	// Problems are those that were found only now, in addition to those of the Workload: what the object asks for is not available here.
	Problems []Problem
	// Failure is the reason why nothing was done about the plan: the API server has refused what must come before.
	Failure error
	// Governed is the effect of a rollout policy on the set; nil without a policy.
	Governed *Governed
}

// Governed is the effect of a rollout policy on a set, as far as it changes the status of the set.
type Governed struct {
	// Phase is how far the rollout is; PhaseStalled also when the policy was deleted in the middle of a rollout. Message is why it does not continue.
	Phase   v1alpha1.Phase
	Message string
	// Settled reports whether the nodes that the policy holds back count as done for now: the active wave is complete and healthy, and the policy is to be ready
	// then (readyWhen: WaveHealthy).
	Settled bool
}
