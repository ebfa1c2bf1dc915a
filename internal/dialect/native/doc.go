// SPDX-License-Identifier: Apache-2.0

// Package native is the dialect of the DaemonSet of apps/v1.
//
// Digest turns the undecoded object into a dialect.Workload, StatusPatch and Event turn decisions back into what users
// of the native controller expect to see: the same status numbers, the same event reasons and messages.
//
// Rule: what other dialects have too is in package base. The object comes from an API server, which has defaulted and
// validated it, but Digest relies on neither: a field that is absent gets the API server's default, and one that cannot be
// honoured becomes a Problem.
//
// There is one deviation from "never reinterpret": when maxUnavailable and maxSurge are both 0, which the API server
// refuses, no update could ever go on. The native controller then takes maxUnavailable for 1, and so does Digest, with a
// Problem. Percentages are resolved by the core, which applies the same rule to what they come to.
package native
