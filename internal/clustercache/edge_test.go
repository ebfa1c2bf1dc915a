// SPDX-License-Identifier: Apache-2.0

package clustercache

import (
	"cmp"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/internal/clustercache/inflight"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rollout"
)

func TestWhenADeletionWasAskedFor(t *testing.T) {
	at := metav1.NewTime(time.Unix(1000, 0))
	grace, long := int64(30), int64(9_000_000_000)
	end := metav1.NewTime(at.Add(time.Duration(long) * time.Second)) // in the year 2255
	later := metav1.NewTime(at.Add(2_000_000_000 * time.Second).Add(time.Duration(long) * time.Second))
	for name, c := range map[string]struct {
		pod  corev1.Pod
		want rollout.Time
	}{
		"not at all":         {corev1.Pod{}, 0},
		"a grace period ago": {corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &at, DeletionGracePeriodSeconds: &grace}}, rollout.Time(970 * time.Second)},
		"285 years ago":      {corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &end, DeletionGracePeriodSeconds: &long}}, rollout.Time(1000 * time.Second)},
		"285 years from now": {corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &later, DeletionGracePeriodSeconds: &long}}, rollout.Time(2_000_001_000 * time.Second)},
		"without one":        {corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &at}}, rollout.Time(1000 * time.Second)},
	} {
		if rec, _ := PodFrom(&c.pod); rec.DeletedAt != c.want {
			t.Errorf("%s: %v, want %v", name, rec.DeletedAt, c.want)
		}
	}
}

// As long as the watch does not show a deletion of ours, it has the time at which it was sent; the API server's own counts more.
func TestADeletionOfOursHasATime(t *testing.T) {
	f := newFixture(t)
	f.node("a")
	key := f.set("ds")
	p := f.put(pod("p", "a", "ds"))
	at := func() rollout.Time { return f.snapshot(key).Nodes[0].Pods[0].DeletedAt }
	f.x.Begin(inflight.Write{Verb: inflight.Delete, UID: p.UID, At: 500})
	f.put(p)
	if got := at(); got != 500 {
		t.Errorf("deleted at %d, want 500", got)
	}
	p.Deleting, p.DeletedAt = true, 400
	f.put(p)
	if got := at(); got != 400 {
		t.Errorf("deleted at %d, want 400", got)
	}
	f.x.Begin(inflight.Write{Verb: inflight.Delete, UID: p.UID, At: 500})
	f.x.Resolve(inflight.Write{Verb: inflight.Delete, UID: p.UID}, inflight.NoEffect)
	p.Deleting, p.DeletedAt = false, 0
	f.put(p)
	if got := at(); got != 0 {
		t.Errorf("deleted at %d, but it is not", got)
	}
}

func TestWhatPodsSay(t *testing.T) {
	f := newFixture(t)
	f.node("a")
	key := f.set("ds")
	says := func(name string, a dialect.Announced) Pod {
		p := pod(name, "a", "ds")
		p.Facts = &dialect.PodFacts{Announced: a}
		return f.put(p)
	}
	want := map[string]rollout.Announced{
		"newest":   {Said: true, Revision: 0},
		"old":      {Said: true, Old: true, Revision: 0},
		"unknown":  {Said: true, Revision: rollout.NoRevision},
		"nameless": {Said: true, Old: true, Revision: rollout.NoRevision},
		"silent":   {},
	}
	f.put(pod("silent", "a", "ds"))
	if f.x.Announced(key) {
		t.Error("no pod says anything")
	}
	says("newest", dialect.Announced{Said: true, Hash: "h1"})
	says("old", dialect.Announced{Said: true, Old: true, Hash: "h1"})
	says("unknown", dialect.Announced{Said: true, Hash: "h9"})
	last := says("nameless", dialect.Announced{Said: true, Old: true})
	for _, p := range f.snapshot(key).Nodes[0].Pods {
		if p.Announced != want[p.Name] {
			t.Errorf("%s says %+v, want %+v", p.Name, p.Announced, want[p.Name])
		}
	}
	for _, name := range []string{"newest", "old", "unknown"} {
		says(name, dialect.Announced{}) // withdrawn
	}
	if !f.x.Announced(key) {
		t.Error("one pod still says something")
	}
	f.x.ForgetPod(last.UID)
	if f.x.Announced(key) {
		t.Error("the last pod that says anything is gone")
	}
}

func TestObserve(t *testing.T) {
	owned := func(numbers ...int64) []Revision {
		all := []Revision{
			{Name: "ds-a", Hash: "a", Data: data("one")}, {Name: "ds-b", Hash: "b", Data: data("two")}, {Name: "ds-c", Hash: "c", Data: data("one")},
		}
		for i := range numbers {
			all[i].Number = numbers[i]
		}
		return all[:len(numbers)]
	}
	unreadable := owned(1, 2)
	unreadable[1].Data = nil
	for name, c := range map[string]struct {
		owned      []Revision
		seen       bool
		want       int
		duplicates int
		template   string
	}{
		"the newest":                          {owned(1, 2), true, 1, 0, ""},
		"none has the template":               {owned(1), true, 0, 0, ""},
		"the same data again":                 {owned(1, 2, 3), true, 2, 1, ""},
		"not seen yet":                        {owned(1, 2), false, rollout.NoRevision, 0, "one"},
		"none":                                {nil, true, rollout.NoRevision, 0, ""},
		"which is the newest?":                {owned(1, 3, 3), true, rollout.NoRevision, 0, ""},
		"data that cannot be read":            {unreadable, true, 1, 0, ""},
		"an older one has the template":       {owned(1, 2), true, 0, 0, "one"},
		"two have the template":               {owned(1, 3, 2), true, 2, 1, "one"},
		"one of the newest has the template":  {owned(1, 3, 3), true, 1, 0, "two"},
		"one has it, the newest is no object": {unreadable, true, 0, 0, "one"},
	} {
		w := &dialect.Workload{Template: template(cmp.Or(c.template, "three")), Set: rollout.Set{ExternalController: true}}
		r := Observe(w, c.owned, c.seen, true)
		if r.Current != c.want || len(r.Duplicates) != c.duplicates {
			t.Errorf("%s: current %d, %d duplicates, want %d and %d", name, r.Current, len(r.Duplicates), c.want, c.duplicates)
		}
		// Nothing is made up for an external set: where it is not known what is wanted, nothing is.
		h := r.History(w)
		if h.Update != c.want || len(h.Revisions) != len(c.owned) {
			t.Errorf("%s: history %+v", name, h)
		}
	}
}

// What another controller has made of a template that the watch has not shown yet is not old: an external set would delete it.
func TestPodsOfATemplateThatIsYetToBeSeen(t *testing.T) {
	for _, external := range []bool{true, false} {
		l := revisionLookup{history: History{
			Of: &dialect.Workload{Set: rollout.Set{ExternalController: external}}, Generation: 3, Update: 1, Index: map[string]int{"old": 0, "new": 1},
		}}
		// The set was made at 0. A hash that is known is believed, but not by an external set.
		wants := [][]int{0: {2: 0, 3: 0, 4: 0}, 1: {2: 0, 3: 0, 4: 0}}
		if external {
			wants = [][]int{0: {2: 0, 3: 1, 4: 1}, 1: {2: 0, 3: 1, 4: 1}}
		}
		for created, byGeneration := range wants {
			for generation := 2; generation <= 4; generation++ {
				p := &podRecord{labels: &labelEntry{hash: "old"}, generation: int64(generation), created: rollout.Time(created)}
				if got, want := l.of(p), byGeneration[generation]; got != want {
					t.Errorf("external %v, created %d, generation %d: revision %d, want %d", external, created, generation, got, want)
				}
			}
		}
	}
}
