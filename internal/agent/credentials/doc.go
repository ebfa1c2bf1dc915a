// SPDX-License-Identifier: Apache-2.0

// Package credentials finds the credentials for a registry, in the order in which to try them: first the pull secrets
// of the image, then those of credential provider plugins. Both work as in the kubelet, so that the agent can pull the
// same images as the kubelet.
//
// A pattern is the scope of a credential: a registry with an optional port and path, for example
// registry.example.com:5000/team. In the host, * matches anything within one part of the name.
//
// Rule: a credential is never logged, and is never part of an error. An error of a pull that used credentials is
// reported with fixed phrases (Reason); other errors without the user info and the queries of URLs (Redact). The
// standard error of a plugin is dropped.
package credentials
