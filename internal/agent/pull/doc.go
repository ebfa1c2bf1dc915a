// SPDX-License-Identifier: Apache-2.0

// Package pull decides which images a node pulls next. It is a function: what is wanted, what is there, what is being pulled
// and what was remembered go in; pulls to begin and to cancel, the state of each want, and the time to be asked again come out.
//
// A want is one version of one tag of one image. Its reference is the image as the container runtime names it, so two wants
// may have the same reference. A run is one pull that the runtime was asked for; it belongs to the want for which it was begun,
// and it serves every want of its reference that is content with what it brings.
//
// Who pays and who gains:
//
//	a run ends well       every want that it serves succeeds: all of its reference, but those of policy Always only when they
//	                      were known before the run began
//	a run ends badly      only its own want has one try less; the others may have better secrets, and get their turn
//	a run was lost        (the runtime went away) no want has one try less, up to a limit; the pull is begun again
//	the disk is too full  the want has one try less, and nothing is begun
//
// Rule: at most one run per reference, and at most Limits.Pulls runs at once. What has succeeded or failed in a version stays
// so: another try is a new version. A want that is being pulled according to memory, but has no run, is begun again.
package pull
