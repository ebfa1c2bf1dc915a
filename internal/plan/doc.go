// SPDX-License-Identifier: Apache-2.0

// Package plan foresees a rollout: it plays the decisions of rollout.Decide on an imaginary world until nothing changes any more, and says
// for every node what became of it, in which order, and how long it took.
//
// # Rule
//
// Simulate decides nothing. It asks the same Decide as the manager, carries its actions out on a rollout.World, and lets kubelets and
// handlers of hooks finish after times that it is told (Assumptions). It knows no clock and no cluster, so the same Snapshot gives the
// same Result everywhere.
//
// # Vocabulary
//
//	outcome    what becomes of a node in the end (Verdict): one of create, recreate, in-place, surge, remove, wait, blocked, leave
//	start      the first action that leads to the outcome; a preDelete hook that is told counts
//	update     the outcome is recreate, in-place or surge because the pod is old: it takes a slot of the budget. All other starts are repairs
//	wave       the place of a node in the order of starts, divided by the budget, from 1; repairs are counted apart, and divided by
//	           how many writes one plan may hold, for no budget holds them up
//	down       a node that has to run a pod and has none that is available
//
// # What never moves by itself
//
// A world in which everybody does what is assumed of them still comes to rest with nodes that are old: those that the set itself keeps
// back (paused, partition, selector, OnDelete) wait, and those on which something is in the way are blocked (a hook that nobody releases, a
// node that is not ready, a pod that says that it cannot start). Their reason is the verdict with which Decide leaves them.
package plan
