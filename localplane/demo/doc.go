// SPDX-License-Identifier: Apache-2.0

// Package demo runs the demo of `make demo` on a local control plane: it creates a DaemonSet, updates it while two
// nodes are cut off, sets an image that cannot be pulled, and rolls back, with a live view of every node.
//
// Vocabulary: an act is one step of the demo; the witness counts independently of the controller, only from the API
// server's watch of pods; a cut node is one that the demo has disconnected.
//
// Rule: the demo reports only what it has observed. All numbers of its summary come from the witness or from a clock.
// Each act ends when its condition is true; if that does not happen, the demo fails with an error that names the
// condition.
package demo
