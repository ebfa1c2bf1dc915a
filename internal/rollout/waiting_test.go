// SPDX-License-Identifier: Apache-2.0

package rollout

import "testing"

func TestWaitingReasons(t *testing.T) {
	for w := WaitingNone + 1; w < WaitingCount; w++ {
		if w.String() == "" || WaitingFor(w.String()) != w {
			t.Errorf("reason %d is %q, which is read as %d", w, w.String(), WaitingFor(w.String()))
		}
	}
	if len(waitingReasons()) != int(WaitingCount) || WaitingCount.String() != "" {
		t.Errorf("%d reasons, want %d", len(waitingReasons()), WaitingCount)
	}
	for reason, want := range map[string]Waiting{"": WaitingNone, "ContainerCreating": WaitingNone, "SomethingNew": WaitingNone, "ErrImagePull": WaitingFor("ImagePullBackOff")} {
		if got := WaitingFor(reason); got != want {
			t.Errorf("%q is read as %s, want %s", reason, got, want)
		}
	}
}
