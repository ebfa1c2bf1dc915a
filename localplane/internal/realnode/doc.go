// SPDX-License-Identifier: Apache-2.0

// Package realnode builds machines from namespaces: real nodes, and the network between them and the control plane.
//
// The network is a network namespace with a bridge and no uplink (RunNetwork holds it). A node is a process with its
// own mount, network, PID, UTS and IPC namespaces (RunInit): it is the first process of the node, like init on a
// machine. Links connects a node to the network; Cgroups are the cgroups in which the kubelet runs its pods; Check
// checks whether all of this is possible here.
//
// Rule: the machine is not changed. Whatever a node mounts, sets or starts belongs to its namespaces and ends with its
// first process. Only the cgroups remain; Cgroups removes them. There is one exception: with cgroups of version 2,
// Cgroups.Create enables the controllers that the kubelet needs in the children of the root cgroup
// (cgroup.subtree_control). This is not reverted, because other processes may depend on it by then. Check changes
// nothing; it removes what it creates for its tests.
package realnode
