// SPDX-License-Identifier: Apache-2.0

// Package manifests holds what Everynode is shipped with (config/) against the code by which an API server judges it: the levels of Pod
// Security, the policies in CEL, the validation of their objects.
//
// Rule: upstream's code says what is allowed; no test here repeats its rules. None needs a plane.
package manifests
