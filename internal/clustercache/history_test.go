// SPDX-License-Identifier: Apache-2.0

package clustercache

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/revision"
	"everynode.dev/everynode/internal/rollout"
)

func template(image string) map[string]any {
	return map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": image}}}}
}

// data is the data of a revision with that template.
func data(image string) []byte {
	raw, err := revision.Data(template(image))
	if err != nil {
		panic(err)
	}
	return raw
}

func TestHistoryOf(t *testing.T) {
	owned := []Revision{
		{Name: "agent-a", Hash: "a", Number: 1, Data: data("one")},
		{Name: "agent-b", Hash: "b", Number: 2, Data: data("two")},
		{Name: "agent-c", Hash: "c", Number: 3, Data: data("one")},
	}
	generation := int64(7)
	for name, c := range map[string]struct {
		image      string
		update     int
		index      map[string]int
		revisions  int
		generation int64
	}{
		"the newest of two equal ones": {"one", 2, map[string]int{"a": 2, "b": 1, "c": 2}, 3, 7},
		"an old one":                   {"two", 1, map[string]int{"a": 0, "b": 1, "c": 2}, 3, 7},
		"one that is not written yet":  {"three", 3, map[string]int{"a": 0, "b": 1, "c": 2}, 4, 7},
	} {
		w := &dialect.Workload{Template: template(c.image), TemplateGeneration: &generation}
		h := Resolve(w, owned).History(w)
		if h.Update != c.update || len(h.Revisions) != c.revisions || h.Generation != c.generation {
			t.Errorf("%s: %+v", name, h)
		}
		for hash, want := range c.index {
			if h.Index[hash] != want {
				t.Errorf("%s: hash %s leads to %d, want %d", name, hash, h.Index[hash], want)
			}
		}
	}
}

func TestHistoryOfANewSet(t *testing.T) {
	w := &dialect.Workload{Template: template("one")}
	h := Resolve(w, nil).History(w)
	if h.Update != 0 || h.Generation != -1 || len(h.Revisions) != 1 || h.Revisions[0] != (rollout.Revision{Name: Unwritten, Number: 1}) {
		t.Errorf("%+v", h)
	}
}

// TestARevisionThatWasMadeAgain: while the watch has not shown that the first one of that name is gone, both are known, and the one that exists is the last.
func TestARevisionThatWasMadeAgain(t *testing.T) {
	f := newFixture(t)
	f.node("a")
	key := f.set("ds")
	owner := pod("own", "a", "ds")
	for _, uid := range []types.UID{"z-first", "a-second"} {
		f.x.PutRevision(Revision{Namespace: owner.Namespace, Name: "ds-1", UID: uid, Owner: owner.Owner, RV: f.next(), Number: 7})
	}
	for range 50 {
		if owned, _ := f.x.History(key); len(owned) != 2 || owned[1].UID != "a-second" {
			t.Fatalf("%+v", owned)
		}
	}
}
