// SPDX-License-Identifier: Apache-2.0

package base

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/internal/rollout"
)

// Reasons of Problems; another is ReasonSelectingAll. Only with ReasonInvalidSpec and ReasonSelectingAll nothing is done for the set.
const (
	ReasonInvalidSpec       = "InvalidSpec"
	ReasonIgnoredField      = "IgnoredField" // a field has no effect, or not the one that was written
	ReasonInvalidAnnotation = "InvalidAnnotation"
	// About images that are pulled before an update; the first is OpenKruise's.
	ReasonFailedPullJob = "FailedCreateImagePullJob"
	ReasonNoImagePulls  = "ImagePullsNotServed"
)

// Reasons of events of our own about updates that wait for images.
const (
	ReasonWaitingForImage = "WaitingForImage"
	ReasonImageWaitOver   = "ImageWaitOver" // an update begins without them
)

// Reasons of events on a DaemonSet, as the native controller has them; people's alerts know them.
const (
	ReasonSelectingAll       = "SelectingAll"
	ReasonFailedPlacement    = "FailedPlacement" // declared upstream, but not sent any more
	ReasonFailedDaemonPod    = "FailedDaemonPod"
	ReasonSucceededDaemonPod = "SucceededDaemonPod"
	ReasonSuccessfulCreate   = "SuccessfulCreate"
	ReasonFailedCreate       = "FailedCreate"
	ReasonSuccessfulDelete   = "SuccessfulDelete"
	ReasonFailedDelete       = "FailedDelete"
)

// Reasons of events of our own, about what the API server refuses to the set.
const (
	ReasonFailedAdopt    = "FailedAdopt"    // to take over a pod
	ReasonFailedRevision = "FailedRevision" // to bring its history in order
)

// Messages of the events about writes, with the name of the pod or the error as argument.
const (
	MessageSuccessfulCreate = "Created pod: %v"
	MessageFailedCreate     = "Error creating: %v"
	MessageSuccessfulDelete = "Deleted pod: %v"
	MessageFailedDelete     = "Error deleting: %v"
)

const messageSelectingAll = "This daemon set is selecting all pods. A non-empty selector is required."

// Event returns type, reason and message of the event for a note of a plan; all are empty for a note that users of the
// native controller do not expect.
func Event(note rollout.Note, namespace, node string) (eventType, reason, message string) {
	switch note.Kind {
	case rollout.FoundFailedPod:
		return corev1.EventTypeWarning, ReasonFailedDaemonPod,
			fmt.Sprintf("Found failed daemon pod %s/%s on node %s, will try to kill it", namespace, note.Pod, node)
	case rollout.FoundSucceededPod:
		return corev1.EventTypeNormal, ReasonSucceededDaemonPod,
			fmt.Sprintf("Found succeeded daemon pod %s/%s on node %s, will try to delete it", namespace, note.Pod, node)
	default:
		return "", "", ""
	}
}
