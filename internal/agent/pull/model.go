// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"cmp"
	"strings"
	"time"
)

// Snapshot is everything that a decision depends on.
type Snapshot struct {
	Now    time.Time
	Limits Limits
	// Wants are in any order. Of two with the same key the first counts.
	Wants  []Want
	Facts  Facts
	Memory Memory
}

// Limits bound what the node does at once.
type Limits struct {
	// Pulls is how many runs there may be at once; 0 or less is any number.
	Pulls int
	// FillPercent is the fill level of the image file system from which on nothing is pulled; 0 is no limit.
	FillPercent int
}

// Key names a want.
type Key struct {
	Image, Tag string
	Version    int64
	// Pod is the UID of the pod that asks for the image; "" for an image that the NodeImage asks for.
	Pod string
}

// Compare orders keys by image, tag, version and pod.
func (k Key) Compare(other Key) int {
	return cmp.Or(strings.Compare(k.Image, other.Image), strings.Compare(k.Tag, other.Tag), cmp.Compare(k.Version, other.Version), strings.Compare(k.Pod, other.Pod))
}

// Want is an image that shall be on the node.
type Want struct {
	Key
	// Ref is the reference under which the runtime knows the image. Two wants with one Ref are for the same image.
	Ref string
	// Invalid is why there cannot be such an image; the want fails with it at once.
	Invalid string
	// Always is whether to ask the registry although the image is present.
	Always bool
	// Timeout is how long one run may take; 0 or less is DefaultTimeout.
	Timeout time.Duration
	// Retries is how many tries may follow the first; less than 0 is DefaultRetries.
	Retries int
	// Deadline, when above 0, is how long after Asked the want fails, whatever it is doing then.
	Deadline time.Duration
	// Asked is when the image was requested; zero is State.Started.
	Asked time.Time
}

// What a want gets that says nothing else, and the bounds of the pause between two tries.
const (
	DefaultTimeout = 10 * time.Minute
	DefaultRetries = 3
	FirstPause     = time.Second
	LongestPause   = 30 * time.Second
	// FreeLosses is how many runs in a row may be lost before a loss costs a try: about 8 minutes without a runtime that
	// stays. Without a bound a runtime that dies of one image would be killed by it for ever.
	FreeLosses = 20
)

func (w *Want) timeout() time.Duration {
	if w.Timeout <= 0 {
		return DefaultTimeout
	}
	return w.Timeout
}

func (w *Want) retries() int {
	if w.Retries < 0 {
		return DefaultRetries
	}
	return w.Retries
}

// ends returns when the want has no time left; false if it has all.
func (w *Want) ends(s *State) (time.Time, bool) {
	from := w.Asked
	if from.IsZero() {
		from = s.Started
	}
	return from.Add(w.Deadline), w.Deadline > 0
}

// Facts are what was seen of the node.
type Facts struct {
	// Down is why the runtime does not answer; "" when it does. Nothing is begun while it is down.
	Down string
	// Present are the images that are there, by reference.
	Present map[string]Image
	Fill    Fill
	// Runs are the runs that go on, and those that have ended since the last decision.
	Runs []Run
}

// Image is an image that is on the node.
type Image struct {
	ID string
}

// Fill is how full the image file system is.
type Fill struct {
	// Known is false where the runtime does not report it; then there is no limit.
	Known   bool
	Percent int
}

// Run is one pull that the runtime was asked for.
type Run struct {
	Number int64
	Key    Key
	Ref    string
	Began  time.Time
	// Until is when the run must be cancelled, as given in the action that began it.
	Until time.Time
	// Progress is 0 to 100, if the runtime reports it.
	Progress int
	// Cancelled is why it was cancelled, NotCancelled while it was not.
	Cancelled Cause
	Result    Result
	// Text is the ID of the image of a run that is Done, and the error of one that has Failed or is Lost.
	Text string
}

// Result is what became of a run.
type Result uint8

const (
	// Running is a run that has not ended.
	Running Result = iota
	// Done is a run that brought the image.
	Done
	// Failed is a run that did not.
	Failed
	// Lost is a run with an unknown result, because the runtime went away.
	Lost
)

// Memory goes from one decision to the next; it may be lost but for what a status holds: phases, times, messages, versions. Tries
// are part of the messages.
type Memory struct {
	// States are in any order.
	States []State
	// LastRun is the highest number of a run so far.
	LastRun int64
}

// Phase is how far a want is.
type Phase uint8

const (
	// Waiting has no run yet.
	Waiting Phase = iota
	// Pulling has a run, or has had one and will try again.
	Pulling
	// Succeeded has its image. It is final.
	Succeeded
	// Broken has failed. It is final.
	Broken
)

// String is the name of the phase in the API.
func (p Phase) String() string {
	switch p {
	case Waiting:
		return "Waiting"
	case Pulling:
		return "Pulling"
	case Succeeded:
		return "Succeeded"
	case Broken:
		return "Failed"
	}
	return "Unknown"
}

// State is what is known of a want.
type State struct {
	Key
	Phase    Phase
	Progress int
	// Started is when it began to be pulled, or while it waits for that, to wait. Completed is when it succeeded or failed.
	Started, Completed time.Time
	ImageID            string
	// Message says what the last try ended with and why it waits, or why it failed.
	Message string
	// Tries are those that have failed, Losses the runs lost in a row. Unknown tries are read from the message.
	Tries, Losses int
	// Failure is what the last try ended with.
	Failure string
	// NotBefore is the time of the next try.
	NotBefore time.Time
	// Run is the number of its run, 0 without one.
	Run int64
}

// Final is whether nothing will change any more.
func (s *State) Final() bool { return s.Phase == Succeeded || s.Phase == Broken }

// Expires returns when a want that is final may be forgotten, given how long it is to be kept after that.
func (s *State) Expires(keep time.Duration) (at time.Time, ok bool) {
	if !s.Final() {
		return time.Time{}, false
	}
	return s.Completed.Add(max(keep, 0)), true
}
