// SPDX-License-Identifier: Apache-2.0

package clustercache

import "testing"

// TestLateNewsOfANameThatNobodyHas: a read has found no pod of a name, whose UID nobody has ever seen. What the watch still has to show of one
// does not count, and what comes by that name later does.
func TestLateNewsOfANameThatNobodyHas(t *testing.T) {
	f := newFixture(t)
	f.node("a")
	key := f.set("ds")
	names := func(when string, want ...string) {
		t.Helper()
		var got []string
		for _, p := range f.snapshot(key).Nodes[0].Pods {
			got = append(got, p.UID)
		}
		if len(got) != len(want) || len(got) == 1 && got[0] != want[0] {
			t.Errorf("%s: pods %v, want %v", when, got, want)
		}
	}
	made, changed, end := f.next(), f.next(), f.next()
	f.x.RecordAbsent(key, "a", "p", end)
	late := pod("p", "a", "ds")
	for _, rv := range []string{made, changed} {
		late.RV = rv
		f.x.PutPod(late)
		names("a late event")
	}
	f.x.ReplacePods([]*Pod{&late}, changed)
	names("an old list")
	f.x.ObservePod(late)
	names("an old answer")
	next := pod("p", "a", "ds")
	next.UID, next.RV = "another", f.next()
	f.x.ObservePod(next)
	names("one that came later", "another")
	f.x.DeletePod(late.UID, end)
	if names("the end of it", "another"); len(f.x.absentSince) != 0 {
		t.Errorf("%d names are remembered although the watch has come so far", len(f.x.absentSince))
	}
	f.x.RecordAbsent(key, "a", "other", end)
	if len(f.x.absentSince) != 0 {
		t.Error("a name is remembered although the watch is beyond that")
	}
	f.x.RecordAbsent(key, "a", "p", next.RV)
	names("a read that is as new as what is known")
	seen := pod("q", "a", "ds")
	seen.RV = f.next()
	before := seen.RV
	seen.RV = f.next()
	f.x.PutPod(seen)
	f.x.RecordAbsent(key, "a", "q", before)
	names("a read that is older than what is known", string(seen.UID))
}
