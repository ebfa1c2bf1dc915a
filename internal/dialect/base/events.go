// SPDX-License-Identifier: Apache-2.0

package base

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/internal/rollout"
)

// Reasons of Problems; others are ReasonSelectingAll, and those about images. Only with ReasonInvalidSpec and ReasonSelectingAll nothing is done for the set.
const (
	ReasonInvalidSpec       = "InvalidSpec"       // a field of the specification cannot be honoured; the set is not reconciled until it is fixed
	ReasonIgnoredField      = "IgnoredField"      // a field has no effect, or another effect than specified; everything else is applied
	ReasonCostlyPlacement   = "CostlyPlacement"   // the template has more node selector terms than it should; everything is applied nevertheless
	ReasonInvalidAnnotation = "InvalidAnnotation" // an annotation cannot be read; the message says what counts instead
)

// Reasons of events about images that are pulled before an update. The first two are OpenKruise's; those about what failed are reasons of
// Problems, too.
const (
	ReasonCreatedPullJob  = "CreatedImagePullJob"      // the roll has an ImagePullJob for one of its images
	ReasonFailedPullJob   = "FailedCreateImagePullJob" // such a job could not be made; it is tried again
	ReasonNoImagePulls    = "ImagePullsNotServed"      // the cluster has no ImagePullJobs, so no image is pulled ahead and no update waits for one
	ReasonWaitingForImage = "WaitingForImage"          // the first nodes whose update waits for its images, once for each revision
	ReasonImageUnlisted   = "ImageCannotBePulled"      // the first nodes on which the images that their update waits for cannot be pulled, once for each revision
	ReasonImageWaitOver   = "ImageWaitOver"            // the nodes that are updated although their images are not present, because the wait has timed out
)

// Reasons of events on a DaemonSet, the same as in the native controller, because alerts of users match them.
const (
	ReasonSelectingAll       = "SelectingAll"       // the selector is empty; nothing is done for the set
	ReasonFailedPlacement    = "FailedPlacement"    // declared upstream, but not sent any more
	ReasonFailedDaemonPod    = "FailedDaemonPod"    // a pod has failed, and is replaced
	ReasonSucceededDaemonPod = "SucceededDaemonPod" // a pod has ended by itself, and is replaced
	ReasonSuccessfulCreate   = "SuccessfulCreate"   // a pod was created
	ReasonFailedCreate       = "FailedCreate"       // the API server has refused a pod
	ReasonSuccessfulDelete   = "SuccessfulDelete"   // a pod was deleted
	ReasonFailedDelete       = "FailedDelete"       // the API server has refused to delete a pod, or to prepare that
)

// Reasons of events of our own, about what the API server refuses to the set.
const (
	ReasonFailedAdopt    = "FailedAdopt"    // the API server refuses that the set takes over a pod
	ReasonFailedRevision = "FailedRevision" // the API server refuses a write to the history; what depends on it waits
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
