// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"
)

// TestStartsAreNotBeforeTheirTime: a start that waits for a window is not shown as before it.
func TestStartsAreNotBeforeTheirTime(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0s", time.Millisecond: "1s", time.Second: "1s", 90*time.Minute - time.Millisecond: "1h30m0s", 90*time.Minute + 1: "1h30m1s"} {
		if got := startText(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}
