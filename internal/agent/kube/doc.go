// SPDX-License-Identifier: Apache-2.0

// Package kube is the API server client for the API of a node: pods, revisions of their sets, and token and access
// reviews.
//
// It is independent of the node: one client serves an agent, or all nodes of a simulated plane. It has a client per
// group with only the types that it needs, because the types of all APIs would double the size of the agent.
//
// Rule: this package makes no decisions. Deletes have the preconditions of the caller.
package kube
