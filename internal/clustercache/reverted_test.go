// SPDX-License-Identifier: Apache-2.0

package clustercache

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// TestVersionsThatGoBack: an object that is older in a list than its record, where the list is at least as new as the record, shows that the storage was
// restored. The index does not take such a list the first time, and takes it the second time.
func TestVersionsThatGoBack(t *testing.T) {
	for name, c := range map[string]struct {
		seen, listed, rv string
		back             bool
	}{
		"a restore that raised the versions":        {"50", "20", "1000000", true},
		"a list that is as new as the record":       {"50", "20", "50", true},
		"an answer that came after the list":        {"50", "20", "40", false},
		"the same version":                          {"50", "50", "60", false},
		"a newer version":                           {"50", "55", "60", false},
		"numbers and not texts":                     {"9", "10", "11", false},
		"versions that cannot be compared":          {"x", "y", "60", false},
		"a list whose version cannot be compared":   {"50", "20", "x", false},
		"a record whose version cannot be compared": {"x", "20", "60", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.node("a")
			f.set("ds")
			before, after := pod("p", "a", "ds"), pod("p", "a", "ds")
			before.RV, after.RV, before.Ready = c.seen, c.listed, true
			f.x.ObservePod(before)
			node := func(rv string) Node { return Node{Name: "b", RV: rv, Ready: rv == c.seen} }
			f.x.PutNode(node(c.seen))
			revision := func(rv string) Revision { return Revision{Namespace: "ns", Name: "r", UID: "r", RV: rv} }
			f.x.ObserveRevision(revision(c.seen))
			lists := []struct {
				name    string
				replace func() *Reverted
				has     func() string
			}{
				{"ns/p", func() *Reverted { return f.x.ReplacePods([]*Pod{&after}, c.rv) }, func() string { return f.x.Version(after.UID) }},
				{"b", func() *Reverted { return f.x.ReplaceNodes([]Node{node(c.listed)}, c.rv) }, func() string { return f.x.nodes.byName["b"].RV }},
				{"ns/r", func() *Reverted { return f.x.ReplaceRevisions([]Revision{revision(c.listed)}, c.rv) }, func() string { return f.x.revisions.byUID["r"].RV }},
			}
			for _, list := range lists {
				if !c.back {
					if back := list.replace(); back != nil {
						t.Errorf("%s has gone back: %+v", list.name, *back)
					}
					continue
				}
				if back, want := list.replace(), (&Reverted{list.name, c.seen, c.listed}); !reflect.DeepEqual(back, want) {
					t.Errorf("%s: %+v, want %+v", list.name, back, want)
				}
				if back := list.replace(); back != nil || list.has() != c.listed {
					t.Errorf("%s: %+v the second time, and its version is %q, want %q", list.name, back, list.has(), c.listed)
				}
			}
			if c.back && f.x.Ready(after.UID) {
				t.Error("the pod is ready, as it was before the restore")
			}
		})
	}
}

// TestPodsThatComeBack: a restore also brings back pods that are known to be gone.
func TestPodsThatComeBack(t *testing.T) {
	for name, gone := range map[string]func(*fixture, Key, types.UID){
		"by its UID":  func(f *fixture, _ Key, uid types.UID) { f.x.ConfirmDeleted(uid) },
		"by its name": func(f *fixture, key Key, _ types.UID) { f.x.RecordAbsent(key, "a", "p", "60") },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.node("a")
			key := f.set("ds")
			p := pod("p", "a", "ds")
			p.RV = "50"
			f.x.ObservePod(p)
			gone(f, key, p.UID)
			p.RV = "20"
			if back := f.x.ReplacePods([]*Pod{&p}, "40"); back != nil {
				t.Errorf("a list from before shows a restore: %+v", *back)
			}
			if back := f.x.ReplacePods([]*Pod{&p}, "100"); back == nil {
				t.Error("the pod is there again, in an older version, and that shows nothing")
			}
			if f.x.ReplacePods([]*Pod{&p}, "100"); f.x.Version(p.UID) != "20" {
				t.Errorf("the pod has version %q", f.x.Version(p.UID))
			}
		})
	}
}
