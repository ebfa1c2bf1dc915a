// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/internal/agent/cri/fake"
)

// TestStop: a container is stopped once, with the time that it has to end, and only if it is the one that is meant.
func TestStop(t *testing.T) {
	runtime := fake.New()
	client, _ := begin(t, runtime)
	runtime.Run("c1", map[string]string{labelPodUID: "uid", labelContainer: "app"})
	for _, other := range []Container{{"c1", "app", "another"}, {"c1", "side", "uid"}} {
		if err := client.Stop(t.Context(), other, time.Second); err == nil || !strings.Contains(err.Error(), "is not "+other.Name+" of the pod with UID "+other.PodUID) {
			t.Errorf("%v: got %v", other, err)
		}
	}
	if n := len(runtime.Stops()); n != 0 {
		t.Fatalf("%d stops of containers of others", n)
	}
	for _, c := range []Container{{"c1", "app", "uid"}, {"c1", "app", "uid"}, {"gone", "app", "uid"}} {
		if err := client.Stop(t.Context(), c, 7*time.Second); err != nil {
			t.Errorf("%v: %v", c, err)
		}
	}
	if stops := runtime.Stops(); len(stops) != 1 || stops[0].GetContainerId() != "c1" || stops[0].GetTimeout() != 7 {
		t.Errorf("the runtime was asked for %v, want one stop of c1 within 7 seconds", stops)
	}
	runtime.Stop()
	if err := client.Stop(t.Context(), Container{"c1", "app", "uid"}, time.Second); !IsAway(err) {
		t.Errorf("without a runtime: %v", err)
	}
}
