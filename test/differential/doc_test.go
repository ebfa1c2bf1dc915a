// SPDX-License-Identifier: Apache-2.0

// Package differential plays made-up stories to the native controller of Kubernetes 1.37.1 and to Everynode's native dialect, and
// compares what they make of them.
//
// Vocabulary: a *cluster* is an API server in memory, with what scheduler, kubelets, node life-cycle and garbage collection would do in
// it. A *player* is one of the two controllers, the whole of it: watches, loop, writes. A *state* is a cluster at rest. A *story* is a
// first state and the steps that users, nodes and pods take from there; a step may consist of several acts, some seconds apart, so that a
// roll is met half-way. Time is that of testing/synctest: it passes when everybody waits.
//
// For each step both players start anew on the same state, and go on until the cluster is at rest. Then all that they have left is
// compared: on every node the pods, whether they are the ones that were there before, what they look like and how they are; the
// ControllerRevisions, without the durations that only Everynode measures; the status of the sets. The next step starts from the state that one of the two has left, by a coin of the
// seed; so each of them also takes over, again and again, what the other one has made.
//
// Rule: upstream's answer is right. Where Everynode differs on purpose, a difference has a name, a reason and a way to be recognised
// (differences), and is counted: it may happen so often and no more. Any other fails the test with the seed and the story.
package differential
