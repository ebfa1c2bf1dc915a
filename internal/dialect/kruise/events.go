// SPDX-License-Identifier: Apache-2.0

package kruise

// Reasons of events on a DaemonSet that only OpenKruise has; package base has the others.
const (
	ReasonSuccessfulUpdatePodInPlace = "SuccessfulUpdatePodInPlace" // the new version was written into a pod
	ReasonFailedUpdatePodInPlace     = "FailedUpdatePodInPlace"     // the API server has refused that
)

// Messages of these events, with the name of the pod; of a failure also with the revision and the error.
const (
	MessageSuccessfulUpdatePodInPlace = "successfully update pod %s in-place"
	MessageFailedUpdatePodInPlace     = "failed to update pod %s in-place(revision %v): %v"
)
