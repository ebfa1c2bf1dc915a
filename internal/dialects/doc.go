// SPDX-License-Identifier: Apache-2.0

// Package dialects holds each dialect as a value: which objects it reads, how it digests them, what it writes, and the texts of its events.
//
// The manager and the command line (kubectl everynode) use the same values, so the command line shows what the manager does.
// Rule: a dialect is put together here and nowhere else. The caller passes in what differs between its users: whether writes are
// allowed, and feature gates.
package dialects
