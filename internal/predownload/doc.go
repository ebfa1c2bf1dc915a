// SPDX-License-Identifier: Apache-2.0

// Package predownload decides which ImagePullJobs a roll of an Advanced DaemonSet needs, so that images are on the nodes before the
// pods that need them.
//
// Vocabulary: an old node runs a pod of another revision than the wanted one. A revision is marked, by a label on its
// ControllerRevision, once it has been decided about; the mark goes when another revision is wanted.
//
// Nothing is pulled ahead
//   - while there is no old node: there is no pod yet, or every pod is of the wanted revision;
//   - when every old node may be updated at once: nothing would be gained;
//   - for an image that every old node has, because the pod that it runs has it too;
//   - before as many updated pods are ready as the annotation for that asks for.
//
// Rule: what is decided depends on what the nodes run, never on revisions that no node runs.
package predownload
