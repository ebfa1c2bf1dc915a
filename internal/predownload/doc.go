// SPDX-License-Identifier: Apache-2.0

// Package predownload decides which ImagePullJobs the rollout of a daemon set needs, so that images are on the nodes before the pods that need them,
// and which nodes wait for that.
//
// Vocabulary: an old node runs a pod of another revision than the wanted one. A revision is marked, by a label on its
// ControllerRevision, once it has been decided about; the mark goes when another revision is wanted. A set waits for images when it has the
// annotation everynode.dev/wait-for-image. Where it does not, its changes in place wait on nodes with an agent, if the manager has it so (InPlace).
//
// Nothing is pulled ahead
//   - while there is no old node: there is no pod yet, or every pod is of the wanted revision;
//   - for an image that every old node has, because the pod that it runs has it too;
//   - when every old node may be updated at once: nothing would be gained;
//   - before as many updated pods are ready as the annotation for that asks for.
//
// The last two do not apply to a set that waits for images. Its jobs stay until the rollout has ended, and are created again when they are deleted: a
// node would wait for ever for an image that no job requests.
//
// A change in place that the set has not asked to wait always has an end in sight, once there is a job: a node that was not asked to pull waits for
// as long as other nodes are asked or released, and for the time of a pull after the last of them. For such changes alone nothing is pulled on a node
// that the set or its policy holds back.
//
// Rule: what is decided depends on what the nodes run, never on revisions that no node runs. Until when a node waits follows from
// its NodeImage and the job alone, so it is the same for every manager; but for InPlace.Ordered and InPlace.Held.
package predownload
