// SPDX-License-Identifier: Apache-2.0

// Package kruise is the dialect of OpenKruise's Advanced DaemonSet, in its stored version v1beta1.
//
// Digest turns the undecoded object into a dialect.Workload; Conditions, StatusPatch and Event turn decisions back into
// what users of OpenKruise, and of ours, expect to see.
//
// Vocabulary: Options are the fields that only an Advanced DaemonSet has. Rule: code that other dialects need too is in
// package base. Our webhooks have defaulted and validated the object, but Digest relies on neither: a field that is absent
// gets OpenKruise's default (maxUnavailable and maxSurge only if neither is set), and one that cannot be honoured becomes a
// Problem, a fatal one where guessing could harm. With a fatal Problem nothing is done for the set, and its condition
// Degraded says why.
package kruise
