// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"maps"
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

// TestEnvironment: the variables of a container are in what containerd and CRI-O add to its status. A runtime that adds nothing says nothing.
func TestEnvironment(t *testing.T) {
	runtime := fake.New()
	client, _ := begin(t, runtime)
	runtime.Run("c1", map[string]string{labelPodUID: "uid", labelContainer: "app"})
	app := Container{"c1", "app", "uid"}
	for info, want := range map[string]map[string]string{
		`{"pid": 7, "runtimeSpec": {"process": {"args": ["/app"], "env": ["PATH=/bin", "TIER=a=b", "EMPTY="]}}}`: {"PATH": "/bin", "TIER": "a=b", "EMPTY": ""},
		`{"runtimeSpec": null}`: nil, `{`: nil, ``: nil,
	} {
		runtime.Inform("c1", info)
		got, err := client.Environment(t.Context(), app)
		if err != nil || (got == nil) != (want == nil) || !maps.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", info, got, err, want)
		}
	}
	if _, err := client.Environment(t.Context(), Container{"c1", "app", "another"}); err == nil {
		t.Error("the environment of another pod's container can be read")
	}
	if got, err := client.Environment(t.Context(), Container{"gone", "app", "uid"}); got != nil || err != nil {
		t.Errorf("a container that is gone: %v, %v", got, err)
	}
}
