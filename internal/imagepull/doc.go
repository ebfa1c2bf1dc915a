// SPDX-License-Identifier: Apache-2.0

// Package imagepull decides which nodes pull an image next for an ImagePullJob, computes the progress of the job, and which images of a NodeImage are
// no longer wanted. It does no I/O.
//
// Vocabulary: a job begins a node by joining the tag of its image in the NodeImage of the node: it becomes one of the tag's
// owners. A node that was begun is active until the agent there reports the tag, in the version that the NodeImage asks for,
// as Succeeded or Failed. Several jobs can own one tag; it is pulled once for all of them. A job leaves a tag that it does not
// want any more, and a tag without owners goes.
//
// Rules:
//   - the whole state is in the NodeImages and in the status of the job: another manager can continue;
//   - never are more nodes begun than the parallelism of the job leaves room for: for 10, with 7 active, 3 more;
//   - a node that failed makes room like one that succeeded: one bad node holds nothing up;
//   - an Edit carries the version of the NodeImage that it was decided on, and is refused if that has changed.
package imagepull
