// SPDX-License-Identifier: Apache-2.0

// Package placement computes on which nodes the pods of a DaemonSet must run, may stay, or must not run.
//
// Vocabulary: Rules are the compiled placement rules of one pod template; Node holds the fields of a node that the
// rules read; Fit is the result for one node.
//
// Rule: the result is the same as that of the DaemonSet controller of Kubernetes 1.37.1, because the scheduler and
// other controllers (node lifecycle, cluster autoscaler) depend on it:
//
//   - spec.nodeName, spec.nodeSelector and the required node affinity of the template select nodes. If one of them
//     does not match, no pod may run (MustLeave).
//   - A taint with effect NoSchedule or NoExecute that the pod does not tolerate forbids a new pod. A pod that already
//     runs may stay, unless one of these taints is NoExecute. Other effects (PreferNoSchedule) are ignored.
//   - A pod has the tolerations of its template and the automatic tolerations of every daemon pod.
//   - Resources, ports, volumes, pod affinity and readiness of the node are ignored: they concern the scheduler and the
//     kubelet.
//
// The toleration operators Lt and Gt require the feature gate TaintTolerationComparisonOperators, which is alpha and
// disabled in 1.37. A toleration that uses one of them tolerates nothing.
package placement
