// SPDX-License-Identifier: Apache-2.0

// Package kube is the client for the API server that the API of a node needs: pods, revisions of their sets, and reviews of tokens and access.
//
// It knows no node: one client serves an agent, and all nodes of a simulated plane. It has a client per group and the few types
// that it needs, because the types of all APIs would double the size of the agent.
//
// Rule: nothing here decides. Whatever is deleted is deleted under the conditions that the caller names.
package kube
