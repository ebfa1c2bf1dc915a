// SPDX-License-Identifier: Apache-2.0

// Package config holds the manifests that install Everynode into a cluster.
//
// The files below install/ are applied in the order of their names. They are the only source: the local control plane is made from them, the
// chart (charts/everynode) takes them in, and test/chart compares what it renders to.
package config

import "embed"

// Install holds install/*.yaml; each file is a stream of one or more YAML documents, applied in order of file name.
//
//go:embed install/*.yaml
var Install embed.FS

// Manager holds manager/*.yaml: the Deployment of the manager, and what goes with its pods. It is apart from what install/ holds, because a manager can also run outside of
// the cluster.
//
//go:embed manager/*.yaml
var Manager embed.FS

// Kruise holds kruise/*.yaml: what is needed in addition where the Advanced DaemonSet of OpenKruise is served, its definition
// first.
//
//go:embed kruise/*.yaml
var Kruise embed.FS

// Policy holds the CRDs of rollout policies and approvals, and the admission policy for approvals. The manager serves every dialect
// without them.
//
//go:embed policy/00-*.yaml policy/20-*.yaml
var Policy embed.FS

// Dialects holds NAME/10-roles.yaml: what is needed in addition where the dialect of that name is served, if that is no more than roles.
//
//go:embed */10-roles.yaml
var Dialects embed.FS

// Agent holds agent/*.yaml: what is needed in addition where agents run on the nodes: their rights, what keeps each to its own
// node, and the DaemonSet that runs them.
//
//go:embed agent/*.yaml
var Agent embed.FS

// People holds people/*.yaml: roles for people. One is for users who watch rollouts with kubectl everynode, and one for those who approve them; the others are added
// to the roles of Kubernetes for people: those for rollout policies always, and those for the Advanced DaemonSet where that is served.
//
//go:embed people/*.yaml
var People embed.FS
