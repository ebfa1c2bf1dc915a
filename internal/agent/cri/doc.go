// SPDX-License-Identifier: Apache-2.0

// Package cri queries and pulls images with the container runtime of the node.
//
// Rule: the connection is established on first use and restored automatically, so if a runtime restarts, or starts
// after the agent, only the calls in the meantime fail. IsAway recognizes such an error; IsSilent also recognizes the
// timeout of a call.
package cri
