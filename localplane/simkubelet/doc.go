// SPDX-License-Identifier: Apache-2.0

// Package simkubelet is the kubelet of the simulated nodes: it makes their pods run, restart, fail and end believably,
// and writes what a kubelet would write. Nothing runs; there is only a state and a clock.
//
// kwok gives a plane its nodes (their status and their leases) and could give it pods too, by stages that react to what a
// pod looks like. Stages have no memory, so they cannot hold what a node holds: one store of images, in which a second pod
// finds what the first one had to pull. So kwok gets stages for nodes only, and each pod's status has one owner, this
// package.
//
// Vocabulary. A node is connected while it carries ConnectedLabel; the pods of a node that is not are left alone,
// whatever happens to them. A container attempt is one container as the runtime counts them: restarting makes another
// attempt. A pod's state is what the node knows of it (which attempt of which image in which phase until when), its
// status is what the API server is told.
//
// The rule: Pod.Advance is a pure function of pod, state, image store and time, apart from this package's informers and
// writes; every delay comes from the Profile; what cannot be known after a restart of this process is read back from
// the pod's status.
//
// What an image does is written in its reference: one that contains "non-existent" or "broken" can never be pulled, one
// that ends in "-missing-on-NODE" not on that node, one with "crash" exits soon after its start, and two that end in the same
// "-digest-NAME" are the same image under two tags.
//
// Readiness gates are read and never set: they are somebody else's job. So is the condition PodScheduled.
package simkubelet
