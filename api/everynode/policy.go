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
	// the ControllerRevision, so that a copy of the annotation does not count. While a revision of a daemon set has the mark, updates to other revisions
	// start only if a policy allows them, also after the policy was deleted in the middle of a rollout. To continue such a rollout without a policy,
	// remove the annotation from all ControllerRevisions of the daemon set.
	Committed = Domain + "/committed"
)

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
