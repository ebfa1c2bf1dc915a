// SPDX-License-Identifier: Apache-2.0

// Package dialects is the list of all dialects, and what follows from it. Each dialect declares in its own package, in a Registration, which objects it
// reads and how, what it writes, the texts of its events, and which roles it needs.
//
// The manager and the command line (kubectl everynode) use the same values, so the command line shows what the manager does.
// Rule: a dialect is a line here. The caller passes in what differs between its users: whether writes are allowed, and feature gates.
package dialects
