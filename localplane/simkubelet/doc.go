// SPDX-License-Identifier: Apache-2.0

// Package simkubelet is the kubelet of the simulated nodes: it simulates how pods start, restart, fail and end, and
// writes the status that a kubelet would write. Nothing runs; there is only a state and a clock.
//
// kwok simulates the nodes of a plane (their status and their leases). Its stages could also simulate pods, but stages
// have no memory, and so cannot have an image store in which a second pod finds the image that the first one pulled. So
// kwok gets stages only for nodes, and this package alone writes the status of pods.
//
// Vocabulary. A node is connected while it has ConnectedLabel; the pods of a node that is not connected do not change.
// A container attempt is one container in the runtime: a restart creates another attempt. The state of a pod is what
// the node knows (which attempt of which image in which phase until when); its status is what the API server gets.
//
// Rule: Pod.Advance is a pure function of pod, state, image store and time; every delay comes from the Profile; after a
// restart of this process, the state is restored from the pod's status.
//
// The reference of an image defines its behaviour: an image with "non-existent" or "broken" in its reference can never
// be pulled, one that ends in "-missing-on-NODE" not on that node, one with "crash" exits soon after its start, and two
// that end in the same "-digest-NAME" are the same image under two tags.
//
// Readiness gates are read and never set: other programs set them. The same applies to the condition PodScheduled.
package simkubelet
