// SPDX-License-Identifier: Apache-2.0

// Package imagepull decides, without doing anything, which nodes an ImagePullJob tells to pull next, how far it is, and what in a
// NodeImage is wanted no longer.
//
// Vocabulary: a job begins a node by joining the tag of its image in the NodeImage of the node: it becomes one of the tag's
// owners. A node that was begun is active until the agent there reports the tag, in the version that the NodeImage asks for,
// as Succeeded or Failed. Several jobs can own one tag; it is pulled once for all of them. A job leaves a tag that it does not
// want any more, and a tag without owners goes.
//
// Rules:
//   - everything that has to be remembered stands in the NodeImages and in the status of the job: another manager can go on;
//   - never are more nodes begun than the parallelism of the job leaves room for: for 10, with 7 active, 3 more;
//   - a node that failed makes room like one that succeeded: one bad node holds nothing up;
//   - an Edit carries the version of the NodeImage that it was decided on, and is refused if that has changed.
package imagepull
