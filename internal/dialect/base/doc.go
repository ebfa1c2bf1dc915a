// SPDX-License-Identifier: Apache-2.0

// Package base contains what all dialects share because each API began as a copy of the DaemonSet of apps/v1: the
// fields of the same name, the numbers of the status, the events.
//
// Vocabulary: a Reader reads fields of an undecoded object one after the other and collects what is wrong with them.
//
// Rule: what only one dialect has is in the package of that dialect. Nothing here reinterprets a value: a field that is
// absent gets the default that the caller names, one that cannot be honoured becomes a Problem, and where guessing could
// harm (a selector, a budget, the template), a fatal one, so that nothing is done for the set until it is fixed.
package base
