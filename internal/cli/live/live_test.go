// SPDX-License-Identifier: Apache-2.0

package live

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/fleet"
	"everynode.dev/everynode/internal/rollout"
)

func template(image string) map[string]any {
	return map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": image}}}}
}

func TestHistoryOf(t *testing.T) {
	owned := []fleet.Revision{
		{Name: "agent-a", Hash: "a", Number: 1, Template: template("one")},
		{Name: "agent-b", Hash: "b", Number: 2, Template: template("two")},
		{Name: "agent-c", Hash: "c", Number: 3, Template: template("one")},
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
		h := historyOf(&dialect.Workload{Template: template(c.image), TemplateGeneration: &generation}, owned)
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
	h := historyOf(&dialect.Workload{Template: template("one")}, nil)
	if h.Update != 0 || h.Generation != -1 || len(h.Revisions) != 1 || h.Revisions[0] != (rollout.Revision{Name: unwritten, Number: 1}) {
		t.Errorf("%+v", h)
	}
}

// A set whose revision is not written yet is shown as it will be: every pod is old, none is unknown.
func TestLookAtASetThatWasJustChanged(t *testing.T) {
	index := fleet.NewIndex(func(fleet.Key) {})
	key := fleet.Key{Dialect: "native", Namespace: "default", Name: "agent"}
	s := &Set{key: key, index: index}
	if _, _, ok := s.Look(1); ok {
		t.Error("a set that does not exist was seen")
	}
	index.PutNode(fleet.Node{Name: "n1", RV: "1", Ready: true})
	index.PutSet(key, &dialect.Workload{Namespace: "default", Name: "agent", UID: "u", Template: template("two")})
	index.PutRevision(fleet.Revision{Namespace: "default", Name: "agent-a", UID: "r", RV: "2", Owner: "u", Hash: "a", Number: 1, Template: template("one")})
	index.PutPod(fleet.Pod{Namespace: "default", Name: "agent-1", UID: "p", RV: "3", Node: "n1", Owner: "u", Generation: -1,
		Labels: map[string]string{appsv1.ControllerRevisionHashLabelKey: "a"}})
	snapshot, _, ok := s.Look(1)
	if !ok || snapshot.Set.Update != 1 || snapshot.Revisions[1].Name != unwritten || snapshot.Nodes[0].Pods[0].Revision != 0 {
		t.Errorf("%v %+v", ok, snapshot)
	}
}
