// SPDX-License-Identifier: Apache-2.0

// Package observe judges a daemon set controller from outside: it reads nothing but the API server's own list and watch.
//
// Vocabulary:
//   - an event is one change of a pod, a node or a DaemonSet as the API server reported it; the log is all events of a run
//     in the order of their resourceVersions, which is the order in which etcd committed them, across the three kinds;
//   - a pod of the set is a pod whose controller reference carries the set's UID; the node of a pod is spec.nodeName, or,
//     until it is bound, the node that its required affinity on metadata.name pins it to;
//   - a pod is available when it is not terminating, not in a terminal phase, and Ready for at least minReadySeconds at the
//     moment the event was received;
//   - an eligible node is one on which the set has to run a pod (Rules.Eligible, in a run the function of upstream);
//   - a node has joined once it was seen available while eligible; it leaves with its Node object or its eligibility;
//   - a node is unavailable when it is eligible, has joined and has no available pod. This is what maxUnavailable of apps/v1
//     counts: a pod that is missing, terminating, not ready, or not ready for long enough;
//   - a node is surging when it has an available pod and, beside it, one that is neither available nor terminating;
//   - the baseline is reached at the first event after which every eligible node is available. Budgets are judged from there.
//
// The invariants, judged at every event:
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
// Which pods count for one-pod and surge-pods: one that is terminating counts, and so does one in a terminal phase (Failed,
// Succeeded), for its successor may come only after it was deleted. One that is both terminal and terminating does not
// count: nothing of it runs any more, only a finalizer or an unreachable kubelet keeps the object, and the successor may be
// created beside it, as upstream's controller does. For availability a terminal pod is no pod.
//
// The rule: Judge is a pure function of the log, so a hand-made log proves that each invariant can fail. The Recorder only
// collects the log, and says so as an error when it may have lost an event; it never papers over a gap by listing again.
package observe
