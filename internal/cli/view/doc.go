// SPDX-License-Identifier: Apache-2.0

// Package view shows one daemon set to a person: what each node is doing, how far an update has come, and what waits
// for what.
//
// It is made of a view model and of two printers:
//
//   - Model is everything that can be said about one set at one moment, made by New from a rollout.Snapshot and the
//     rollout.Plan that Decide made of it. It holds facts and words, no layout, so a page in a browser can be drawn from
//     it as well as a terminal.
//   - Screen draws a Model on a terminal, always in the same place; Lines writes one line per change, for a log or a pipe.
//     Open picks the one that fits. Both are a View.
//
// Vocabulary: a cell is one node, a group is a handful of verdicts that look the same to a person (and share a character
// and a colour), a wait is a number of nodes that wait for the same reason.
//
// Rule: nothing here reads a clock, a cluster or the environment. Time is Snapshot.Now; the size of the terminal and the
// environment are handed in. So every frame can be compared with a golden file.
package view
