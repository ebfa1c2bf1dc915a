// SPDX-License-Identifier: Apache-2.0

// Package testapp is the application in the pods of real nodes in tests, and its client.
//
// Vocabulary:
//
//	version  the value of $VERSION; one program serves as all versions of an image
//	journal  a file on the node to which each run of the application appends one line when it starts and one when it stops
//	lock     a file on the node that a run locks while it runs: a run that cannot lock it overlaps another one, and writes that to the journal
//	answer   the result of a client's request, also a failure
//
// Rule: it needs only the standard library and no file of its image, so that it can be an image by itself. Its settings
// come from the environment, as in a manifest.
package testapp
