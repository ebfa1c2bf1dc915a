// SPDX-License-Identifier: Apache-2.0

package clustercache

import (
	"fmt"
	"testing"

	"everynode.dev/everynode/internal/clustercache/inflight"
	"everynode.dev/everynode/internal/rollout"
)

// TestWhoNamesAUIDIsNotTheSetsOwn: a tenant may write the UID of a set into pods and revisions of a namespace, or of a group, that the set is not of. They
// count for nothing, whether the set is known before them or after.
func TestWhoNamesAUIDIsNotTheSetsOwn(t *testing.T) {
	for name, change := range map[string]func(p *Pod, r *Revision){
		"of another namespace": func(p *Pod, r *Revision) { p.Namespace, r.Namespace = "evil", "evil" },
		"of another group":     func(p *Pod, r *Revision) { p.Advanced, r.Advanced = true, true },
	} {
		for _, known := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				f := newFixture(t)
				f.node("a")
				key := f.set("ds")
				if !known {
					f.x.DeleteSet(key)
				}
				owner := pod("own", "a", "ds")
				live, leaving := pod("live", "a", "ds"), pod("leaving", "a", "ds")
				leaving.Deleting = true
				r := Revision{Namespace: owner.Namespace, Name: "ds-1", UID: "r1", Owner: owner.Owner, RV: f.next(), Number: 7}
				change(&live, &r)
				change(&leaving, &Revision{})
				clear(f.noted)
				f.put(live)
				f.put(leaving)
				f.x.PutRevision(r)
				if len(f.noted) != 0 {
					t.Errorf("notified %v", f.noted)
				}
				if !known {
					f.set("ds")
				}
				f.want(key, "a=must-run[] ")
				if owned, _ := f.x.History(key); len(owned) != 0 {
					t.Errorf("revisions %v", owned)
				}
				f.x.Begin(inflight.Write{Verb: inflight.Delete, UID: live.UID, At: 1})
				f.x.Resolve(inflight.Write{Verb: inflight.Delete, UID: live.UID, Until: 2}, inflight.Unclear)
				f.x.DeletePod(live.UID, f.next())
				f.put(owner)
				f.want(key, "a=must-run[own] ")
			})
		}
	}
}

// TestClaimsAreLimited: of more orphans than a pass can adopt it gets those with the first names, and is not held up by one that was refused.
func TestClaimsAreLimited(t *testing.T) {
	f := newFixture(t)
	f.node("a")
	f.node("refused")
	key := f.set("ds")
	orphan := func(i int, node string) {
		p := pod(fmt.Sprintf("orphan-%05d", i), node, "ds")
		p.Owner = ""
		f.put(p)
	}
	for i := range 5 * ownershipLimit {
		orphan(i*7919%(5*ownershipLimit), "a")
	}
	orphan(0, "refused")
	refused := f.x.Ownership(key, 5).Adopt[0]
	f.x.Block(inflight.Write{Verb: inflight.Claim, Set: key, Node: refused.Node, UID: refused.UID}, inflight.Block{Reason: "no", Until: 10})
	c := f.x.Ownership(key, 5)
	if len(c.Adopt) != ownershipLimit || !c.More || c.Adopt[0].Name != "orphan-00001" || c.Adopt[ownershipLimit-1].Name != fmt.Sprintf("orphan-%05d", ownershipLimit) {
		t.Errorf("%d to adopt, from %s to %s, more: %t", len(c.Adopt), c.Adopt[0].Name, c.Adopt[len(c.Adopt)-1].Name, c.More)
	}
	if len(c.AdoptAgain) != 0 {
		t.Errorf("%d to adopt again before their time", len(c.AdoptAgain))
	}
	c = f.x.Ownership(key, 10)
	if len(c.Adopt) != ownershipLimit || c.Adopt[0].Name != "orphan-00001" || len(c.AdoptAgain) != 1 || c.AdoptAgain[0].Name != "orphan-00000" {
		t.Errorf("when it is to be tried again: %d to adopt, from %s, and %d again", len(c.Adopt), c.Adopt[0].Name, len(c.AdoptAgain))
	}
}

// TestAClaimHoldsItsNode: the node of a pod that is not adopted yet is held back, also when it is time to try again, until the pod has been adopted, or has gone.
func TestAClaimHoldsItsNode(t *testing.T) {
	for name, end := range map[string]func(f *fixture, key Key, p Pod){
		"the pod has gone": func(f *fixture, _ Key, p Pod) { f.x.DeletePod(p.UID, "1000") },
		"the pod is adopted": func(f *fixture, key Key, p Pod) {
			f.x.Resolve(inflight.Write{Verb: inflight.Claim, Set: key, Node: p.Node, UID: p.UID}, inflight.TookEffect)
		},
		"the pod is unlabeled": func(f *fixture, _ Key, p Pod) {
			p.Labels, p.RV = map[string]string{"app": "other"}, "1000"
			f.x.PutPod(p)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, node := range []string{"a", ""} {
				f := newFixture(t)
				f.node("a")
				key := f.set("ds")
				p := pod("orphan", node, "ds")
				p.Owner = ""
				f.put(p)
				p = f.x.Ownership(key, 0).Adopt[0]
				f.x.Block(inflight.Write{Verb: inflight.Claim, Set: key, Node: p.Node, UID: p.UID}, inflight.Block{Reason: "no", Until: 10})
				for _, now := range []rollout.Time{5, 10, 1000} {
					s, _, _ := f.x.Snapshot(key, History{}, now)
					c := f.x.Ownership(key, now)
					if held := s.Nodes[0].Blocked == "no"; held != (node != "") || len(c.Adopt) != 0 || len(c.AdoptAgain) != min(1, int(now)/10) {
						t.Errorf("node %q at %d: held back %t, %d to adopt, %d again", node, now, held, len(c.Adopt), len(c.AdoptAgain))
					}
				}
				end(f, key, p)
				s, _, _ := f.x.Snapshot(key, History{}, 1000)
				if c := f.x.Ownership(key, 1000); s.Nodes[0].Blocked != "" || len(c.AdoptAgain) != 0 {
					t.Errorf("node %q afterwards: blocked %q, %d to adopt again", node, s.Nodes[0].Blocked, len(c.AdoptAgain))
				}
			}
		})
	}
}

// TestNoOrphanIsAdoptedNextToACreate: the create may take effect at any moment, and the set would have two pods on the node. When it has an answer the orphan is adopted.
func TestNoOrphanIsAdoptedNextToACreate(t *testing.T) {
	f := newFixture(t)
	f.node("a")
	f.node("b")
	key := f.set("ds")
	create := inflight.Write{Verb: inflight.Create, Set: key, Node: "a", Pod: "new", Until: 100, Slow: true}
	f.x.Begin(create)
	for _, node := range []string{"a", "b"} {
		orphan := pod("orphan-"+node, node, "")
		orphan.Labels = map[string]string{"app": "ds"}
		f.put(orphan)
	}
	if c := f.x.Ownership(key, 0); len(c.Adopt) != 1 || c.Adopt[0].Node != "b" || c.More {
		t.Errorf("while the create has no answer: %+v", c)
	}
	f.x.Resolve(create, inflight.TookEffect)
	if c := f.x.Ownership(key, 0); len(c.Adopt) != 2 {
		t.Errorf("when it has one: %+v", c)
	}
}

// TestAClaimOutlivesItsNode: the pod of an adoption without an answer may be adopted already, so its node is held back also after it went and came back, or
// came back after the adoption.
func TestAClaimOutlivesItsNode(t *testing.T) {
	for _, before := range []bool{true, false} {
		f := newFixture(t)
		f.node("a")
		key := f.set("ds")
		p := pod("orphan", "a", "ds")
		p.Owner = ""
		f.put(p)
		claim := func() {
			f.x.Block(inflight.Write{Verb: inflight.Claim, Set: key, Node: "a", UID: p.UID}, inflight.Block{Reason: "unclear", Until: 10, Unclear: true})
		}
		if before {
			claim()
		}
		f.x.DeleteNode("a")
		if !before {
			claim()
		}
		f.node("a")
		if s, _, _ := f.x.Snapshot(key, History{}, 5); len(s.Nodes) != 1 || s.Nodes[0].Blocked != "unclear" {
			t.Errorf("claimed before the node went: %t; the nodes are %+v", before, s.Nodes)
		}
	}
}

// TestTheEndOfACreateNotifiesOfOrphans: an orphan is not adopted while a create for its node has no answer. When that has been found out, nothing else may happen.
func TestTheEndOfACreateNotifiesOfOrphans(t *testing.T) {
	f := newFixture(t)
	f.node("a")
	key := f.set("ds")
	create := inflight.Write{Verb: inflight.Create, Set: key, Node: "a", Pod: "x"}
	f.x.Begin(create)
	p := pod("orphan", "a", "ds")
	p.Owner = ""
	f.put(p)
	if c := f.x.Ownership(key, 1); len(c.Adopt) != 0 {
		t.Fatalf("to adopt %v", c.Adopt)
	}
	clear(f.noted)
	f.x.Resolve(create, inflight.NoEffect)
	if c := f.x.Ownership(key, 1); len(c.Adopt) != 1 || len(f.noted) != 1 {
		t.Errorf("to adopt %v, notified %v", c.Adopt, f.noted)
	}
}
