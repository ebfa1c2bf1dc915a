// SPDX-License-Identifier: Apache-2.0

// Package credentials finds what a registry wants to see before it gives an image away, in the order in which to try it: first the
// pull secrets that were named for the image, then what credential provider plugins say. Both work as in the kubelet, so that a
// node pulls ahead what it could pull later.
//
// A pattern is where a credential is for: a registry with an optional port and path, for example registry.example.com:5000/team.
// In the host, * stands for anything within one part of the name.
//
// Rule: a credential is never logged, and is no part of an error. An error of a pull that used credentials is reported as fixed phrases (Reason), any
// other without the user info and the queries of its URLs (Redact). What a plugin writes to its standard error is dropped.
package credentials
