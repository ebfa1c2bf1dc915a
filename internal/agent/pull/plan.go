// SPDX-License-Identifier: Apache-2.0

package pull

import "time"

// Plan is a decision.
type Plan struct {
	// Actions are executed in this order.
	Actions []Action
	// Memory has the state of exactly the wants, sorted by key.
	Memory Memory
	// Wake is the time of the next decision if nothing happens before; zero if nothing depends on the time.
	Wake time.Time
}

// Action is one action.
type Action struct {
	Kind ActionKind
	// Run is the number of the run to start or to cancel.
	Run int64
	// Key, Ref and Until are those of the run; Until is set only for a Start.
	Key   Key
	Ref   string
	Until time.Time
	// Cause is the reason why a run is cancelled.
	Cause Cause
}

// ActionKind is the kind of an action.
type ActionKind uint8

const (
	// Start requests the image from the runtime.
	Start ActionKind = iota + 1
	// Cancel cancels a run. The caller that executes it sets Run.Cancelled.
	Cancel
)

// Cause is the reason why a run is cancelled.
type Cause uint8

const (
	// NotCancelled is a run in progress.
	NotCancelled Cause = iota
	// Unwanted is a run that serves no want any more.
	Unwanted
	// TimedOut is a run that took too long.
	TimedOut
)

// String returns the cause for a log.
func (c Cause) String() string {
	switch c {
	case NotCancelled:
		return "not cancelled"
	case Unwanted:
		return "unwanted"
	case TimedOut:
		return "timed out"
	}
	return "unknown"
}
