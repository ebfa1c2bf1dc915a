// SPDX-License-Identifier: Apache-2.0

// Package observe checks a DaemonSet controller as a black box: it reads only lists and watches of the API server.
//
// Vocabulary:
//   - an event is one change of a pod, a node or a DaemonSet (of apps/v1 or of apps.kruise.io) as the API server reported it; the log is all events of a run
//     in the order of their resourceVersions, which is the order in which etcd committed them, across the three kinds;
//   - a pod of the set is a pod whose controller reference carries the set's UID; the node of a pod is spec.nodeName, or,
//     until it is bound, the node that its required affinity on metadata.name pins it to;
//   - a pod is available when it is not terminating, not in a terminal phase, and Ready for at least minReadySeconds at the
//     moment the event was received;
//   - an eligible node is one on which the set must run a pod (Rules.Eligible, in a run the function of upstream);
//   - a node has joined once it was seen available while eligible; it leaves with its Node object or its eligibility;
//   - a node is unavailable when it is eligible, has joined and has no available pod. This is what maxUnavailable of apps/v1
//     counts: a pod that is missing, terminating, not ready, or not ready for long enough;
//   - a node is surging when it has an available pod and another one that is neither available nor terminating;
//   - the baseline is reached at the first event after which every eligible node is available. Budgets are judged from there.
//
// The invariants, checked at every event:
//
//	| invariant   | what must hold                                                                             |
//	|-------------|--------------------------------------------------------------------------------------------|
//	| budget      | RollingUpdate: the number of unavailable nodes does not rise above maxUnavailable, resolved |
//	|             | against the eligible nodes of that moment, percentages rounded up; 1 when both budgets      |
//	|             | resolve to 0                                                                               |
//	| one-pod     | no second pod of the set appears on a node while maxSurge is 0; terminating pods count      |
//	| surge-pods  | no third pod of the set appears on a node while maxSurge is above 0; terminating pods count |
//	| surge       | while maxSurge is above 0, no new pod takes the number of surging nodes above it            |
//
// More is known about an Advanced DaemonSet, so more is checked. The update of a node begins with the first of these
// events that the controller brings about: its old pod (of another revision than status.updateRevision) is deleted,
// prepared for its hook, marked for a change in place or patched, or a pod of the newest revision appears although the
// node's last one was old. A pod that ended by itself, or that another client deleted (Recorder.Excuse), does not begin
// an update. A node is spent when it has a running pod of the newest revision or its update has begun. A pod that waits
// for its hook is not available any more.
//
//	| invariant   | what must hold                                                                             |
//	|-------------|--------------------------------------------------------------------------------------------|
//	| limits      | an update begins only if the strategy is not OnDelete, nothing is paused, the selector     |
//	|             | chooses the node, and no more nodes are spent than eligible ones minus the partition       |
//	|             | (percentages rounded down); with progressive creation a new node's pod obeys the partition |
//	| kept        | no pod of the newest revision on an eligible node is deleted, prepared or changed          |
//	| in-place    | a pod is patched only while its gate is closed, and the gate is opened only when all its   |
//	|             | containers run the images of its specification                                             |
//	| hook        | no pod is deleted that has a label or a finalizer of the preDelete hook, unless its node   |
//	|             | is gone                                                                                    |
//
// A controller cannot act on changes that it has not observed: a step is allowed if any version of the set from
// status.observedGeneration on allows it.
//
// Which pods count for one-pod and surge-pods: one that is terminating counts, and so does one in a terminal phase
// (Failed, Succeeded), because its replacement may be created only after it was deleted. One that is both terminal and
// terminating does not count: it no longer runs, only a finalizer or an unreachable kubelet keeps the object, and the
// replacement may be created, as upstream's controller does. A terminal pod is never available.
//
// Where nodes fail (Rules.Outages), anything may become unavailable at any time, so budget is checked by the actions of
// the controller: see judgeCharge; so is surge: see judgeDoubled; and percentages are relative to the highest number of eligible nodes within the last
// 2 s. Kept is then checked for sets of apps/v1 too, by their ControllerRevisions, which only a Ledger has.
//
// At moments at which nothing is left to do (Rules.Rests), every number of the status is computed from nodes, pods and
// revisions, as upstream defines it: the oldest pod of a node counts. That is the invariant called status.
//
// A Ledger is a log that is complete even if the API server is killed, because it is read from etcd. The clients and
// preconditions of writes are in the audit log of the API server: JudgeWrites.
//
// Rule: Judge is a pure function of the log, so tests with constructed logs show that each invariant can fail. The
// Recorder only collects the log, and returns an error if it may have lost an event; it never hides a gap with a new
// list.
package observe
