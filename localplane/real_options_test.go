// SPDX-License-Identifier: Apache-2.0

package localplane

import (
	"errors"
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/localplane/internal/home"
)

// What is said of real nodes is not passed over on a plane that has none.
func TestOptionsForRealNodesWithoutAny(t *testing.T) {
	h, err := home.At(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for want, real := range map[string]RealNodes{
		"--containerd is /opt/containerd": {Containerd: "/opt/containerd"},
		"--registry-latency is 5s":        {RegistryLatency: 5 * time.Second},
	} {
		_, err := Options{Real: real}.withDefaults().realNodes(h, home.State{})
		var usage *UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--real-nodes") {
			t.Errorf("%+v: %v", real, err)
		}
		// Those of an earlier run count.
		if _, err := (Options{Real: real}).withDefaults().realNodes(h, home.State{RealNodes: 1}); errors.As(err, &usage) {
			t.Errorf("%+v on a plane that has real nodes: %v", real, err)
		}
	}
}

func TestDirectoryThatCannotStandInAFile(t *testing.T) {
	for _, name := range []string{"a,b", "a:b", "a #b", "{a}", `a"b`, `a\b`} {
		h, err := home.At("/tmp/" + name)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Options{RealNodes: 1}.withDefaults().realNodes(h, home.State{})
		var usage *UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), "--dir: "+h.Dir()) {
			t.Errorf("%s: %v", h.Dir(), err)
		}
		if _, err := (Options{}).withDefaults().realNodes(h, home.State{}); err != nil {
			t.Errorf("without real nodes: %v", err)
		}
	}
}

// A kubelet that is newer than its API server is nothing that Kubernetes supports.
func TestNoRealNodesNextToAnotherKubernetes(t *testing.T) {
	h, err := home.At(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	older := Options{Programs: Programs{Kubernetes: "/opt/older"}}.withDefaults()
	var usage *UsageError
	for have, asked := range map[int]int{0: 1, 1: 0} { // those of an earlier run count
		older.RealNodes = asked
		_, err := older.realNodes(h, home.State{RealNodes: have})
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), "--real-nodes") || !strings.Contains(err.Error(), "/opt/older") {
			t.Errorf("%d real nodes, and %d asked for: %v", have, asked, err)
		}
	}
	older.RealNodes = 0
	if _, err := older.realNodes(h, home.State{}); err != nil {
		t.Errorf("without real nodes: %v", err)
	}
}
