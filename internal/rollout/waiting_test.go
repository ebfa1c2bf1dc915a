// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"testing"
)

func TestWaitingReasons(t *testing.T) {
	all := WaitingNone
	for _, reason := range waitingReasons() {
		w := WaitingFor(reason)
		if w == WaitingNone || w&all != 0 || w.String() != reason {
			t.Errorf("%q is read as %b, which is %q", reason, w, w)
		}
		all |= w
	}
	if got := all.Reasons(); !slices.Equal(got, waitingReasons()) || WaitingNone.String() != "" {
		t.Errorf("all reasons together are %q", got)
	}
	for reason, want := range map[string]Waiting{"": WaitingNone, "ContainerCreating": WaitingNone, "SomethingNew": WaitingNone, "ErrImagePull": WaitingFor("ImagePullBackOff")} {
		if got := WaitingFor(reason); got != want {
			t.Errorf("%q is read as %s, want %s", reason, got, want)
		}
	}
}
