// SPDX-License-Identifier: Apache-2.0

// Package view shows one DaemonSet to a user: the state of each node, the progress of an update, and what nodes wait
// for.
//
// It consists of a view model and two printers:
//
//   - Model is the state of one set at one moment. New computes it from a rollout.Snapshot and the
//     rollout.Plan of this snapshot. It has data and texts but no layout, so a web page could show it
//     too.
//   - Screen redraws a Model in place on a terminal; Lines writes one line per change, for a log or a pipe.
//     Open chooses between them. Both implement View.
//
// Vocabulary: a cell is one node; a group is a few verdicts that share a character and a colour; a wait is a number of
// nodes that wait for the same reason.
//
// Rule: nothing here reads the clock, the cluster or the environment. The time is Snapshot.Now; the size of the
// terminal and the environment are parameters. So every frame can be compared with a golden file.
package view
