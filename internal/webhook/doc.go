// SPDX-License-Identifier: Apache-2.0

// Package webhook serves defaulting, validation and conversion of Advanced DaemonSets, ImagePullJobs and NodeImages
// over HTTPS, and asks the API server about pod templates. The rules are pure functions in the packages below it.
//
// Setup does everything that a manager needs. Rule: this package makes no decisions; a handler decodes, calls, and
// encodes.
package webhook
