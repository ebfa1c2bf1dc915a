// SPDX-License-Identifier: Apache-2.0

// Package pull decides which images a node pulls next. It is a pure function. Its inputs are the requested images, the
// images on the node, the pulls in progress and the memory; its results are the pulls to start and to cancel, the state
// of each want, and the time of the next decision.
//
// A want is one version of one tag of one image. Its reference is the image as the container runtime names it, so two
// wants may have the same reference. A run is one pull by the runtime. It belongs to the want for which it was started,
// and serves every want of its reference that its image satisfies.
//
// Results of runs:
//
//	a run succeeds        every want that it serves succeeds: all of its reference, but those of policy Always only when they
//	                      were known before the run began
//	a run fails           only its own want uses up a try; the others may have other secrets, and are tried next
//	a run was lost        (the runtime stopped) no want uses up a try, up to a limit; the pull is started again
//	the disk is too full  the want uses up a try, and no run is started
//
// Rule: at most one run per reference, and at most Limits.Pulls runs at once. Succeeded and failed are final for a
// version: another attempt needs a new version. A want that is being pulled according to the memory, but has no run, is
// started again.
package pull
