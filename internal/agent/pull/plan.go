// SPDX-License-Identifier: Apache-2.0

package pull

import "time"

// Plan is a decision.
type Plan struct {
	// Actions are to be carried out in this order.
	Actions []Action
	// Memory holds the state of every want, sorted by key, and nothing else.
	Memory Memory
	// Wake is when to decide again if nothing happens before; zero when nothing depends on the time.
	Wake time.Time
}

// Action is one thing to do.
type Action struct {
	Kind ActionKind
	// Run is the number of the run to begin or to cancel.
	Run int64
	// Key, Ref and Until are those of the run; Until is set for a Start only.
	Key   Key
	Ref   string
	Until time.Time
	// Cause is why a run is cancelled.
	Cause Cause
}

// ActionKind is what to do.
type ActionKind uint8

const (
	// Start asks the runtime for the image.
	Start ActionKind = iota + 1
	// Cancel gives up a run. The caller that carries it out sets Run.Cancelled.
	Cancel
)

// Cause is why a run is cancelled.
type Cause uint8

const (
	// NotCancelled is a run that goes on.
	NotCancelled Cause = iota
	// Unwanted is a run that serves no want any more.
	Unwanted
	// TimedOut is a run that took too long.
	TimedOut
)

// String is the cause for a log.
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
