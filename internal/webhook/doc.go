// SPDX-License-Identifier: Apache-2.0

// Package webhook is the thin shell around what is pure in the packages below it: it serves defaulting, validation and
// conversion of Advanced DaemonSets over HTTPS, and those of
// ImagePullJobs and NodeImages, and asks the API server about pod templates.
//
// Setup does everything that a manager needs. Rule: no decision is made here; a handler decodes, calls, and encodes.
package webhook
