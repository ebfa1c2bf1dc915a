// SPDX-License-Identifier: Apache-2.0

// Package config holds the manifests that install Everynode into a cluster.
//
// The files below install/ are applied in the order of their names. They are the only source: the local
// control plane is made from them, the chart (charts/everynode) includes a copy of them, and test/chart
// compares the rendered chart with them.
package config

import "embed"

// Install holds install/*.yaml; each file is a stream of one or more YAML documents, applied in order of file name.
//
//go:embed install/*.yaml
var Install embed.FS

// Manager holds manager/*.yaml: the Deployment of the manager, and what goes with its pods. It is separate
// from install/, because a manager can also run outside of the cluster.
//
//go:embed manager/*.yaml
var Manager embed.FS

// Kruise holds kruise/*.yaml: the additional manifests for clusters where OpenKruise's Advanced DaemonSet is served, its CRD first.
//
//go:embed kruise/*.yaml
var Kruise embed.FS

// Policy holds the CRDs of rollout policies and approvals, and the admission policy for approvals. The manager serves every dialect
// without them.
//
//go:embed policy/00-*.yaml policy/20-*.yaml
var Policy embed.FS

// Dialects holds NAME/10-roles.yaml: the additional manifests for the dialect with that name, if it needs only roles.
//
//go:embed */10-roles.yaml
var Dialects embed.FS

// Agent holds agent/*.yaml: the manifests for the agents on nodes: their permissions, the policy that
// restricts each agent to its own node, and the DaemonSet that runs them.
//
//go:embed agent/*.yaml
var Agent embed.FS

// People holds people/*.yaml: roles for users. One is for users who watch rollouts with kubectl everynode,
// and one for those who approve them; the others are aggregated to the default user-facing roles of
// Kubernetes: those for rollout policies always, and those for the Advanced DaemonSet where that is served.
//
//go:embed people/*.yaml
var People embed.FS

// Dashboard holds dashboard/*.yaml: the dashboard that serves users of the cluster. It is not part of an installation, as in the chart: it needs a
// certificate and the name of a host.
//
//go:embed dashboard/*.yaml
var Dashboard embed.FS
