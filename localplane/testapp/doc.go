// SPDX-License-Identifier: Apache-2.0

// Package testapp is the application that runs in the pods of real nodes when they are tested, and the client that asks it.
//
// Vocabulary:
//
//	version  what $VERSION says; one program serves as all versions of an image
//	journal  a file on the node to which each run of the application appends one line when it starts and one when it stops
//	lock     a file on the node that a run holds for its life: who cannot get it runs beside another one, and says so in the journal
//	answer   what a client has got for one question; a failure is one too
//
// The rule: it needs nothing but the standard library and no file of its image, so that it can be an image by itself. What it is to
// do comes from the environment, as in a manifest.
package testapp
