// SPDX-License-Identifier: Apache-2.0

// Package gitops tests what tools say of the objects that Everynode writes, in every state of a rollout: kstatus (Flux, Helm), the expressions of Flux, Argo CD
// with its own scripts and with those in contrib/argocd, and kubectl; and what kubectl drain and Karpenter do with the pods. All of it is the code of these
// projects. The table of docs/gitops.md is what the test found; -update writes it.
package gitops
