// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"testing"

	"k8s.io/client-go/rest"

	"everynode.dev/everynode/internal/clustercache/informers"
	"everynode.dev/everynode/internal/controller/daemonset"
	"everynode.dev/everynode/internal/features"
)

// TestNameOfTheGate: what people are told to set is the gate that there is.
func TestNameOfTheGate(t *testing.T) {
	if daemonset.PredownloadGate != string(features.PreDownloadImageForDaemonSetUpdate) {
		t.Errorf("people are told of the gate %s", daemonset.PredownloadGate)
	}
}

// TestNumbersBeforeTheWatches: what is not known is not counted, and not waited for.
func TestNumbersBeforeTheWatches(t *testing.T) {
	p := &pulls{}
	if n, known := p.numbers(); known {
		t.Errorf("counted %+v", n)
	}
	if err := p.catchUp(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestWhoReadsTheNodes: image pulls are handed the nodes that the index reads, for they read none themselves, and would wait for ever.
func TestWhoReadsTheNodes(t *testing.T) {
	const ahead = "--feature-gates=PreDownloadImageForDaemonSetUpdate="
	for name, c := range map[string]struct {
		flags []string
		pulls bool
	}{
		"image pulls are served":        {[]string{"--dialects=kruise", ahead + "false"}, true},
		"jobs are made":                 {[]string{"--dialects=native", ahead + "true"}, true},
		"everything":                    {[]string{"--dialects=native,kruise", ahead + "true"}, true},
		"nobody has to do with pulling": {[]string{"--dialects=native", ahead + "false"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := parse(t, "", c.flags...)
			if err != nil {
				t.Fatal(err)
			}
			l, err := newLeader(o, &rest.Config{Host: "https://nowhere", QPS: 100, Burst: 100}, &leaseGuard{})
			if err != nil {
				t.Fatal(err)
			}
			if l.holds != nil {
				t.Error("nodes are held for no set")
			}
			if (l.pulls != nil) != c.pulls {
				t.Fatalf("the leader has %v for image pulls", l.pulls)
			}
			if !c.pulls {
				if l.feed.Nodes != nil {
					t.Errorf("nodes are kept for nobody: %v", l.feed.Nodes)
				}
				return
			}
			if l.feed.Nodes == nil || l.feed.Nodes != informers.NodeStore(l.pulls.watches.Nodes) {
				t.Errorf("the index hands its nodes to %v", l.feed.Nodes)
			}
		})
	}
}

// TestWhoHoldsNodes: a leader whose sets may hold nodes gets what is decided from the controller.
func TestWhoHoldsNodes(t *testing.T) {
	o, err := parse(t, "", "--come-back-first-namespaces=agents")
	if err != nil {
		t.Fatal(err)
	}
	l, err := newLeader(o, &rest.Config{Host: "https://nowhere", QPS: 100, Burst: 100}, &leaseGuard{})
	if err != nil {
		t.Fatal(err)
	}
	if l.holds == nil || l.holds.Known() || l.controller.Observer != daemonset.Observer(observer{l.metrics, l.holds}) {
		t.Errorf("the leader holds nodes with %v, and observes with %v", l.holds, l.controller.Observer)
	}
	if l.synced.Store(true); !l.holds.Known() {
		t.Error("the sets are read, and not known")
	}
	if l.late.Store(true); l.holds.Known() {
		t.Error("the Advanced DaemonSets are not read, and known")
	}
}

// TestWhetherChangesInPlaceWait: by default they do, and where their pull secrets may be copied.
func TestWhetherChangesInPlaceWait(t *testing.T) {
	o, err := parse(t, "", "--pull-secret-namespaces=a,b")
	if err != nil {
		t.Fatal(err)
	}
	if how := imagesInPlace(o); how == nil || !how.MayCopySecrets("b") || how.MayCopySecrets("c") {
		t.Errorf("by default they wait as %+v", how)
	}
	if o, err = parse(t, "", "--in-place-wait-for-images=false"); err != nil || imagesInPlace(o) != nil {
		t.Errorf("switched off, they wait as %+v, %v", imagesInPlace(o), err)
	}
}
