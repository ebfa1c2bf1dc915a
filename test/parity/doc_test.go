// SPDX-License-Identifier: Apache-2.0

// Package parity holds what Everynode computes itself against the code of the native controller of Kubernetes 1.37.1,
// on made-up objects: where pods go, what pods look like, what revisions and their hashes are, what budgets come to.
//
// Rule: upstream's answer is right, whatever it is. Where Everynode differs on purpose, the test says so and why. Each
// test on random objects counts the kinds of answers it got and fails when one of them hardly occurred.
package parity
