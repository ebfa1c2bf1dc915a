// SPDX-License-Identifier: Apache-2.0

package native

import (
	"everynode.dev/everynode/internal/dialect/base"
	"everynode.dev/everynode/internal/rollout"
)

// Reasons of events on a DaemonSet, the same as in the native controller, because alerts of users match them.
const (
	ReasonSelectingAll       = base.ReasonSelectingAll
	ReasonFailedPlacement    = base.ReasonFailedPlacement
	ReasonFailedDaemonPod    = base.ReasonFailedDaemonPod
	ReasonSucceededDaemonPod = base.ReasonSucceededDaemonPod
	ReasonSuccessfulCreate   = base.ReasonSuccessfulCreate
	ReasonFailedCreate       = base.ReasonFailedCreate
	ReasonSuccessfulDelete   = base.ReasonSuccessfulDelete
	ReasonFailedDelete       = base.ReasonFailedDelete
)

// Messages of the events about writes, with the name of the pod or the error as argument.
const (
	MessageSuccessfulCreate = base.MessageSuccessfulCreate
	MessageFailedCreate     = base.MessageFailedCreate
	MessageSuccessfulDelete = base.MessageSuccessfulDelete
	MessageFailedDelete     = base.MessageFailedDelete
)

// Event returns type, reason and message of the event for a note of a plan; see base.Event.
func Event(note rollout.Note, namespace, node string) (eventType, reason, message string) {
	return base.Event(note, namespace, node)
}
