// SPDX-License-Identifier: Apache-2.0

// Package cri asks the container runtime of the node about its images, and has it pull one.
//
// Rule: the connection is made when it is needed and comes back by itself, so a runtime that restarts, or that starts after us,
// costs no more than the calls that fail in the meantime. IsAway recognizes such an error;
// IsSilent is for calls with a time limit of their own, which a runtime that hangs does not answer either.
package cri
