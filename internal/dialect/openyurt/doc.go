// SPDX-License-Identifier: Apache-2.0

// Package openyurt is the dialect of OpenYurt: annotations on a DaemonSet of apps/v1 that say how its old pods are updated, and a condition
// of its pods that reports whether there is a newer revision.
//
// Vocabulary: the plain set is what the specification says without these annotations. An external set is a set whose pods another controller
// creates, repairs and removes, usually that of kube-controller-manager; this dialect then deletes old pods and sets conditions, and
// nothing else.
//
// Rule: one object is one Workload. Digest is for where Everynode keeps the pods of apps/v1 itself, and adds its reading of the annotations
// to what the native dialect reads; DigestExternal is for where another controller does. What cannot be honoured becomes a Problem, and with it
// a condition Degraded, and no old pod is deleted until it is fixed: a wrong guess about the limits of an update could take down a site.
package openyurt
