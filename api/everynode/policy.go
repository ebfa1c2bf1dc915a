// SPDX-License-Identifier: Apache-2.0

package everynode

import (
	"fmt"
	"strconv"
	"strings"
)

// Annotations on a ControllerRevision.
const (
	// Committed marks a revision that has passed all waves of a RolloutPolicy. The value is a number, which is higher the later that was, and the UID of
	// the ControllerRevision, so that a copy of the annotation does not count. Where a policy applies, its status says which revision that is. While a
	// revision of a daemon set has the mark, updates to other revisions start only if a policy allows them, also after the policy was deleted in the middle
	// of a rollout. To continue such a rollout without a policy, remove the annotation from all ControllerRevisions of the daemon set.
	Committed = Domain + "/committed"

	// Failed marks a revision that has failed under a RolloutPolicy. The value is the number of the revision in that rollout, the UID of the
	// ControllerRevision, Pause or Undo, the wave ("-" for none), and why. It counts together with the failure in the status of the policy, until the
	// template describes another revision, or a user rolls the revision out again with `kubectl everynode retry`. If the policy has no status of the daemon
	// set, the mark alone holds the revision.
	Failed = Domain + "/failed"
)

// Failure is the content of the mark Failed.
type Failure struct {
	// Number is the number of the revision in the rollout that failed.
	Number int64
	// Undo is whether nodes return to the committed revision.
	Undo bool
	// Wave is the wave that failed, empty for none; Message is the reason as a human-readable sentence.
	Wave, Message string
}

// FormatFailed returns the value of Failed for a ControllerRevision.
func FormatFailed(f Failure, uid string) string {
	action, wave := "Pause", f.Wave
	if f.Undo {
		action = "Undo"
	}
	if wave == "" {
		wave = "-"
	}
	return fmt.Sprintf("%d %s %s %s %s", f.Number, uid, action, wave, f.Message)
}

// ParseFailed returns the content of a value of Failed; nil if it is not the mark of that ControllerRevision.
func ParseFailed(value, uid string) *Failure {
	parts := strings.SplitN(value, " ", 5)
	if len(parts) < 5 || parts[1] != uid || parts[2] != "Pause" && parts[2] != "Undo" {
		return nil
	}
	n, err := strconv.ParseInt(parts[0], 10, 64)
	if err != nil || n < 0 {
		return nil
	}
	f := &Failure{Number: n, Undo: parts[2] == "Undo", Wave: parts[3], Message: parts[4]}
	if f.Wave == "-" {
		f.Wave = ""
	}
	return f
}

// FormatCommitted returns the value of Committed for a ControllerRevision.
func FormatCommitted(number int64, uid string) string { return fmt.Sprintf("%d %s", number, uid) }

// ParseCommitted returns the number in a value of Committed; 0 if it is not the mark of that ControllerRevision.
func ParseCommitted(value, uid string) int64 {
	number, of, _ := strings.Cut(value, " ")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || of != uid || n < 0 {
		return 0
	}
	return n
}
