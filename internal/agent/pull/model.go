// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"cmp"
	"strings"
	"time"
)

// Snapshot is the input of a decision.
type Snapshot struct {
	Now    time.Time
	Limits Limits
	// Wants are in any order. If two have the same key, the first is used.
	Wants  []Want
	Facts  Facts
	Memory Memory
}

// Limits are the limits of the node.
type Limits struct {
	// Pulls is the maximum number of concurrent runs; 0 or less means no limit.
	Pulls int
	// FillPercent is the usage of the image file system at which pulls stop; 0 means no limit.
	FillPercent int
}

// Key identifies a want.
type Key struct {
	Image, Tag string
	Version    int64
	// Pod is the UID of the pod that requests the image; "" for an image of the NodeImage.
	Pod string
}

// Compare orders keys by image, tag, version and pod.
func (k Key) Compare(other Key) int {
	return cmp.Or(strings.Compare(k.Image, other.Image), strings.Compare(k.Tag, other.Tag), cmp.Compare(k.Version, other.Version), strings.Compare(k.Pod, other.Pod))
}

// Want is an image that must be on the node.
type Want struct {
	Key
	// Ref is the reference of the image in the runtime. Two wants with one Ref are for the same image.
	Ref string
	// Invalid is the reason why there is no such image; the want fails with it immediately.
	Invalid string
	// Always reports whether to query the registry even if the image is present.
	Always bool
	// Timeout is the maximum duration of one run; 0 or less is DefaultTimeout.
	Timeout time.Duration
	// Retries is the number of tries after the first; less than 0 is DefaultRetries.
	Retries int
	// Deadline, if above 0, is the time after Asked at which the want fails.
	Deadline time.Duration
	// Asked is when the image was requested; zero means State.Started.
	Asked time.Time
}

// Defaults of a want, and the limits of the pause between two tries.
const (
	DefaultTimeout = 10 * time.Minute
	DefaultRetries = 3
	FirstPause     = time.Second
	LongestPause   = 30 * time.Second
	// FreeLosses is how many runs in a row may be lost before a loss uses up a try: about 8 minutes without a stable
	// runtime. Without a limit, an image that crashes the runtime would crash it forever.
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

// ends returns the deadline of a want; ok is false if it has none.
func (w *Want) ends(s *State) (time.Time, bool) {
	from := w.Asked
	if from.IsZero() {
		from = s.Started
	}
	return from.Add(w.Deadline), w.Deadline > 0
}

// Facts are observations of the node.
type Facts struct {
	// Down is the reason why the runtime does not respond, or "". No run is started while it is down.
	Down string
	// Present are the images on the node, by reference.
	Present map[string]Image
	Fill    Fill
	// Runs are the runs in progress, and those that have ended since the last decision.
	Runs []Run
}

// Image is an image that is on the node.
type Image struct {
	ID string
}

// Fill is the usage of the image file system.
type Fill struct {
	// Known is false if the runtime does not report it; then there is no limit.
	Known   bool
	Percent int
}

// Run is one pull by the runtime.
type Run struct {
	Number int64
	Key    Key
	Ref    string
	Began  time.Time
	// Until is when the run must be cancelled, as given in the action that started it.
	Until time.Time
	// Progress is 0 to 100, if the runtime reports it.
	Progress int
	// Cancelled is the reason why it was cancelled, or NotCancelled.
	Cancelled Cause
	Result    Result
	// Text is the ID of the image of a Done run, and the error of a Failed or Lost run.
	Text string
}

// Result is the result of a run.
type Result uint8

const (
	// Running is a run that has not ended.
	Running Result = iota
	// Done is a run that has pulled the image.
	Done
	// Failed is a run that has not.
	Failed
	// Lost is a run with an unknown result, because the runtime stopped.
	Lost
)

// Memory is passed from one decision to the next. It may be lost, except for what a status contains: phases, times,
// messages, versions. Tries are part of the messages.
type Memory struct {
	// States are in any order.
	States []State
	// LastRun is the highest number of a run so far.
	LastRun int64
}

// Phase is the phase of a want.
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

// State is the state of a want.
type State struct {
	Key
	Phase    Phase
	Progress int
	// Started is when the want started to wait, or when its pull started. Completed is when it succeeded or failed.
	Started, Completed time.Time
	ImageID            string
	// Message is the error of the last try and why the want waits, or why it failed.
	Message string
	// Tries is the number of failed tries, Losses the number of runs lost in a row. Unknown tries are read from the
	// message.
	Tries, Losses int
	// Failure is the error of the last try.
	Failure string
	// NotBefore is the time of the next try.
	NotBefore time.Time
	// Run is the number of its run, 0 without one.
	Run int64
}

// Final reports whether the phase is final.
func (s *State) Final() bool { return s.Phase == Succeeded || s.Phase == Broken }

// Expires returns when a final want may be forgotten, if it is kept for that time.
func (s *State) Expires(keep time.Duration) (at time.Time, ok bool) {
	if !s.Final() {
		return time.Time{}, false
	}
	return s.Completed.Add(max(keep, 0)), true
}
