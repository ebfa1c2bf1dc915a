// SPDX-License-Identifier: Apache-2.0

// Package inflight holds what is known of our own writes that no watch has shown: the overlay that a Snapshot lays over the package clustercache. Its
// model is the cache of kube-scheduler: a write is assumed when it begins (Begin), and its answer confirms it, or is the reason to forget it (Resolve).
//
// The cache has one Pod for each pod that a write concerns, and a Set for each daemon set. Nothing here reads or waits: the executor calls Begin and Resolve, and asks the API server itself
// for what became of a write.
//
// # Never acting twice
//
//   - A write is begun before it is sent, or waits to be sent. A delete counts from then on: its pod is terminating. Only an adoption or a release need not be
//     begun: one that is sent twice does no harm.
//   - An answer is definite (TookEffect, NoEffect) or not (Unclear). A write without a definite answer holds what it concerns, and not the rest of the set, for
//     as long as it may take effect (Write.Until), and then until a read shows what became of it. So there is nothing that a timer alone ends.
//   - A create without a definite answer: nothing is done on its node, also when the node goes and comes back, until a read has found the pod, or the create cannot take
//     effect any more.
//   - A delete without a definite answer: its pod is terminating, and nothing is done on its node, which may have one live pod more than is known.
//   - An edit without a definite answer: no other edit of its pod is sent, and if the edit takes the pod out of use, the pod does not count as serving.
//   - A delete that took effect is not forgotten: its pod is terminating until the cache itself shows that, or that the pod has gone.
//   - A pod that is not adopted or released yet holds its node as it is, so that no second pod comes next to it.
//   - A refusal belongs to a node: the write is tried again after all others, and after half of the time for which it has been refused. An edit without a definite
//     answer is remembered in the same way, until the pod shows that it took effect.
//   - What is known of the writes for a pod ends with the pod: another one of the same name has another UID.
//   - A delete for an update is a promise: the next pod of the node is of that revision, also when the update may not start on the node any more.
//   - A process that ends forgets all of this. A later leader waits until no write of an earlier one can take effect any more, and then reads.
//
// Write.Until is by a clock that no user can set; Write.At and all times of a Snapshot are by the clock of the machine.
package inflight
