// SPDX-License-Identifier: Apache-2.0

// Package wiring holds each dialect as a value: which objects it reads, how it digests them, what it writes, and in which words.
//
// The manager serves these values, and whoever looks on (kubectl everynode) reads and decides with the same ones, so that what a person is
// shown is what the manager does. Rule: a dialect is put together here and nowhere else; what differs between its users (the probe
// for other controllers, feature gates) is handed in.
package wiring
