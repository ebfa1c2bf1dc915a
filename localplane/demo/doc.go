// SPDX-License-Identifier: Apache-2.0

// Package demo plays the story of `make demo` on a local control plane: a DaemonSet is created, rolled while two nodes are
// cut off, given a bad image and brought back, with a live view of every node.
//
// Vocabulary: an act is one step of the story; the witness is the demo's own count, taken from the API server's watch of
// pods and from nothing else; a cut node is one that the demo itself has made unreachable.
//
// Rule: the demo only says what it has seen. Every figure of its summary comes from the witness or from a clock, each act
// ends when its condition holds, and when one does not hold the demo fails with a sentence that says which.
package demo
