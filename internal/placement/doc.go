// SPDX-License-Identifier: Apache-2.0

// Package placement says where the pods of a daemon set have to run, may stay and must not run.
//
// Vocabulary: the Rules are what one pod template says about nodes, compiled once; a Node is what of a node they read;
// the Fit is their answer for one node.
//
// Rule: the answer is that of the native controller of Kubernetes 1.37.1, bit for bit, because a scheduler and other
// controllers (node life cycle, cluster autoscaler) assume it:
//
//   - spec.nodeName, spec.nodeSelector and the required node affinity of the template select nodes. Where one of them
//     does not match, no pod may run (MustLeave).
//   - A taint with effect NoSchedule or NoExecute that the pod does not tolerate forbids a new pod. A pod that already
//     runs may stay, unless one of these taints is NoExecute. Other effects (PreferNoSchedule) mean nothing here.
//   - A pod tolerates what its template says and, in addition, the automatic tolerations of every daemon pod.
//   - Resources, ports, volumes, pod affinity and readiness of the node do not matter: they are the scheduler's and the
//     kubelet's concern.
//
// The comparison operators Lt and Gt of tolerations belong to the feature gate TaintTolerationComparisonOperators, which
// is alpha and off in 1.37: a toleration that uses one tolerates nothing.
package placement
