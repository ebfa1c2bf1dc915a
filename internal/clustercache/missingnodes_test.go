// SPDX-License-Identifier: Apache-2.0

package clustercache

import (
	"fmt"
	"runtime"
	"testing"

	"everynode.dev/everynode/internal/clustercache/inflight"
	"everynode.dev/everynode/internal/rollout"
)

// Pods that name nodes which are not there, as anybody can make them who may make pods (spec.nodeName, or a term for metadata.name), cost the sets of other
// namespaces nothing: neither memory nor room in their Snapshots.
func TestPodsThatNameNodesWhichAreNotThere(t *testing.T) {
	const nodes, sets, orphans = 100, 200, 10_000
	for _, own := range []bool{false, true} {
		f, keys := clusterOf(t, nodes, sets)
		before := heap()
		for i := range orphans {
			p := orphanNumber(i, "space0")
			p.Node = podNumber(0, i%nodes).Node
			if own {
				p.Node = fmt.Sprintf("no-such-node-%012x", i)
			}
			f.put(p)
		}
		bytes := (heap() - before) / orphans
		var b Buffer
		h := History{Revisions: []rollout.Revision{{Name: "h1"}}, Index: map[string]int{"h1": 0}, Generation: -1}
		f.x.SnapshotInto(&b, keys[0], h, 1000)
		t.Logf("each on a node of its own that is not there: %v; %d bytes an orphan, room for %d nodes in a Snapshot of another set", own, bytes, cap(b.nodes))
		if bytes > 2*recordLimit {
			t.Errorf("%d bytes an orphan, want at most %d", bytes, 2*recordLimit)
		}
		if cap(b.nodes) > 2*nodes {
			t.Errorf("a Snapshot of a set of another namespace has room for %d nodes, and there are %d", cap(b.nodes), nodes)
		}
		runtime.KeepAlive(f)
	}
}

// TestWhatIsKnownOfANodeThatGoesAndComes: a set keeps its pods, what was there last, and creates without an answer, when a node goes and while pods of others
// name it, and has them when it comes back; what has been refused or blocked there is forgotten when the node goes.
func TestWhatIsKnownOfANodeThatGoesAndComes(t *testing.T) {
	f := newFixture(t)
	f.node("a")
	f.node("b")
	key, other := f.limited("ds", nil), f.set("other")
	f.put(pod("p", "a", "ds"))
	f.put(pod("q", "b", "other"))
	last := f.put(pod("last", "b", "ds"))
	f.x.DeletePod(last.UID, f.next())
	f.x.Resolve(inflight.Write{Verb: inflight.Create, Set: key, Node: "b", Pod: "x"}, inflight.Unclear)
	f.x.Refuse(key, inflight.Refusal{Node: "a", Message: "policy"})
	f.x.Block(inflight.Write{Verb: inflight.Create, Set: key, Node: "a"}, inflight.Block{Reason: "because", From: 900, Until: 2000})
	f.x.DeleteNode("a")
	f.x.DeleteNode("b")
	s, _, _ := f.x.Snapshot(key, twoRevisions(), 1000)
	if len(s.Nodes) != 1 || !s.Nodes[0].Gone || s.Nodes[0].Name != "a" || len(s.Nodes[0].Pods) != 1 || s.Nodes[0].Refusal != nil || s.Nodes[0].Blocked != "" {
		t.Fatalf("without the nodes: %+v", s.Nodes)
	}
	if s, _, _ := f.x.Snapshot(other, twoRevisions(), 1000); len(s.Nodes) != 1 || s.Nodes[0].Name != "b" {
		t.Fatalf("without the nodes, of the other set: %+v", s.Nodes)
	}
	f.node("b")
	f.node("a")
	s, _, _ = f.x.Snapshot(key, twoRevisions(), 1000)
	if len(s.Nodes) != 2 || s.Nodes[0].Gone || len(s.Nodes[0].Pods) != 1 || s.Nodes[1].Blocked == "" || s.Nodes[1].Last != 0 {
		t.Fatalf("with the nodes again: %+v", s.Nodes)
	}
	f.x.Resolve(inflight.Write{Verb: inflight.Create, Set: key, Node: "b"}, inflight.NoEffect)
	f.x.DeleteSet(key)
	f.x.DeletePod("p", f.next())
	f.x.DeletePod("q", f.next())
	f.x.DeleteNode("a")
	f.x.DeleteNode("b")
	if n := len(f.x.nodes.byName); n != 0 {
		t.Errorf("%d nodes are kept that are not there, and that nobody names", n)
	}
}
