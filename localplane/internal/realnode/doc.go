// SPDX-License-Identifier: Apache-2.0

// Package realnode makes machines of namespaces: real nodes, and the network between them and the control plane.
//
// The network is a network namespace with a bridge in it and no way out (RunNetwork holds it). A node is a process with
// mount, network, PID, UTS and IPC namespaces of its own (RunInit): it is the first process of the node, as init is of a
// machine. Links joins a node to the network; Cgroups are the directories in which the kubelet accounts its pods; Check
// says beforehand whether all of this can work here.
//
// The rule: the machine stays as it was. Whatever a node mounts, sets or starts hangs on its namespaces and ends with its
// first process, however that one ends. Only the directories of the cgroups outlive it; Cgroups removes them. One thing
// stays: where cgroups are of version 2, Cgroups.Create lets the children of the topmost one have the controllers that
// the kubelet needs (cgroup.subtree_control), and nobody takes them back, because others may count on them by then.
// Check changes nothing; what it makes to try things out it removes.
package realnode
