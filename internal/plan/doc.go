// SPDX-License-Identifier: Apache-2.0

// Package plan predicts a rollout: it simulates the decisions of rollout.Decide on a rollout.World until nothing
// changes any more, and returns for every node the outcome, the order and the duration.
//
// # Rule
//
// Simulate makes no decisions. It calls the same Decide as the manager, applies the actions to a rollout.World, and
// lets kubelets and hook handlers finish after given times (Assumptions). It reads no clock and no cluster, so the same
// Snapshot always gives the same Result.
//
// # Vocabulary
//
//	outcome    the final result for a node (Verdict): one of create, recreate, in-place, surge, remove, wait, blocked, leave
//	start      the first action that leads to the outcome, including marking a pod for its preDelete hook
//	update     the outcome is recreate, in-place or surge because the pod is old: it uses a slot of the budget. All other starts are repairs
//	wave       the place of a node in the order of starts, divided by the budget, from 1; repairs are counted separately, and divided by
//	           the maximum number of writes in one plan, because no budget limits them
//	down       a node that must run a pod and has none that is available
//
// # Nodes that do not finish
//
// Even if all assumptions hold, some nodes may still have an old pod in the end: nodes that the specification of the
// set or a rollout policy holds back (paused, partition, selector, OnDelete, suspended) wait, and nodes with an obstacle are blocked (a hook that is
// never released, a node that is not ready, a pod that reports that it cannot start). Their reason is the last verdict
// of Decide.
package plan
