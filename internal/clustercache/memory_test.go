// SPDX-License-Identifier: Apache-2.0

package clustercache

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"everynode.dev/everynode/internal/clustercache/inflight"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rollout"
)

// twoRevisions is a history in which h2 is wanted, and was written at 500.
func twoRevisions() History {
	return History{
		Revisions: []rollout.Revision{{Name: "h1", Number: 1}, {Name: "h2", Number: 2}}, Update: 1,
		Index: map[string]int{"h1": 0, "h2": 1}, Generation: -1, Updated: 500,
	}
}

// limited adds a set with limits.
func (f *fixture) limited(name string, change func(*dialect.Workload)) Key {
	key := f.set(name)
	w := *f.x.Workload(key)
	w.Generation++
	w.Set.Paused = true
	if change != nil {
		change(&w)
	}
	f.x.PutSet(key, &w)
	return key
}

func (f *fixture) only(key Key) rollout.Node {
	f.t.Helper()
	s, _, ok := f.x.Snapshot(key, twoRevisions(), 1000)
	if !ok || len(s.Nodes) != 1 {
		f.t.Fatalf("snapshot %+v, want one node", s)
	}
	return s.Nodes[0]
}

func TestLastRevisionOfANode(t *testing.T) {
	f := newFixture(t)
	f.node("a")
	key, free := f.limited("ds", nil), f.set("free")
	want := func(want int, when string) {
		t.Helper()
		if got := f.only(key).Last; got != want {
			t.Errorf("%s: last %d, want %d", when, got, want)
		}
	}
	want(rollout.NoRevision, "before any pod")
	p := f.put(pod("one", "a", "ds"))
	want(0, "with a pod")
	f.x.DeletePod(p.UID, f.next())
	want(0, "when it is gone")
	younger := pod("two", "a", "ds")
	younger.Labels, younger.Created = map[string]string{"app": "ds", hashLabel: "h2"}, 7
	f.put(younger)
	older := f.put(pod("three", "a", "ds"))
	want(1, "with two pods")
	f.x.DeletePod(younger.UID, f.next())
	want(0, "when the younger is gone")
	f.x.DeletePod(older.UID, f.next())
	f.put(pod("other", "a", "free"))
	if got := f.only(free).Last; got != rollout.NoRevision {
		t.Errorf("a set without limits remembers %d", got)
	}
	f.x.DeletePod("other", f.next())
	f.x.DeleteNode("a")
	f.node("a")
	want(rollout.NoRevision, "on a new node of the same name")
}

func TestPromiseOutlivesThePod(t *testing.T) {
	f := newFixture(t)
	f.node("a")
	key := f.limited("ds", nil)
	p := f.put(pod("one", "a", "ds"))
	f.x.Begin(inflight.Write{Verb: inflight.Delete, UID: p.UID, Next: "h2"})
	if got := f.only(key).Last; got != 1 {
		t.Errorf("while the pod is there the node is to get %d, want 1", got)
	}
	f.x.Resolve(inflight.Write{Verb: inflight.Delete, UID: p.UID}, inflight.NoEffect)
	if got := f.only(key).Last; got != 0 {
		t.Errorf("after a refused delete the node is to get %d, want 0", got)
	}
	f.x.Begin(inflight.Write{Verb: inflight.Delete, UID: p.UID, Next: "h2"})
	p.Deleting = true
	f.put(p)
	f.x.DeletePod(p.UID, f.next())
	if got := f.only(key).Last; got != 1 {
		t.Errorf("when the pod is gone the node is to get %d, want 1", got)
	}
	if live := f.x.LiveHashes(key); !live["h2"] || live["h1"] {
		t.Errorf("live hashes %v, want the promised one", live)
	}
	if kept := f.x.pods[p.UID]; kept != nil {
		t.Errorf("promises are kept for pods that are gone: %v", kept.writes)
	}
}

func TestGuessOfTheLastRevision(t *testing.T) {
	for _, c := range []struct {
		name    string
		created rollout.Time
		change  func(*dialect.Workload)
		want    int
	}{
		{"a node older than the wanted revision", 499, nil, 0},
		{"a node that came later", 500, nil, rollout.NoRevision},
		{"a node of unknown age", 0, nil, rollout.NoRevision},
		{"a set whose nodes get their pods one by one", 1, func(w *dialect.Workload) { w.Set.Progressive = true }, rollout.NoRevision},
		{"a set without limits", 1, func(w *dialect.Workload) { w.Set.Limits = rollout.Limits{} }, rollout.NoRevision},
	} {
		f := newFixture(t)
		f.x.PutNode(Node{Name: "a", RV: f.next(), Created: c.created})
		if got := f.only(f.limited("ds", c.change)).Last; got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	f := newFixture(t)
	f.x.PutNode(Node{Name: "a", RV: f.next(), Created: 1, Taints: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}})
	key := f.limited("ds", nil)
	f.only(key)
	f.x.PutNode(Node{Name: "a", RV: f.next(), Created: 1})
	if got := f.only(key).Last; got != rollout.NoRevision {
		t.Errorf("a node that had no pod while it need not run one had revision %d", got)
	}
	f = newFixture(t)
	f.x.PutNode(Node{Name: "a", RV: f.next(), Created: 1})
	h := History{Revisions: []rollout.Revision{{Name: "h1"}}, Index: map[string]int{"h1": 0}, Generation: -1, Updated: 500}
	if s, _, _ := f.x.Snapshot(f.limited("ds", nil), h, 1000); s.Nodes[0].Last != rollout.NoRevision {
		t.Errorf("a history of one revision leads to the guess %d", s.Nodes[0].Last)
	}
}

// TestTheGuessIsNoAbandonedCanary: of a node whose pod went while nobody watched the guess is what most others run, and not a newer revision that no pod
// is of.
func TestTheGuessIsNoAbandonedCanary(t *testing.T) {
	f := newFixture(t)
	for i := range 10 {
		f.x.PutNode(Node{Name: fmt.Sprint("n", i), RV: f.next(), Created: 1})
	}
	key := f.limited("ds", nil)
	for i := 1; i < 10; i++ {
		p := pod(fmt.Sprint("p", i), fmt.Sprint("n", i), "ds")
		if i == 9 {
			p.Hash, p.Labels = "h3", map[string]string{"app": "ds", hashLabel: "h3"}
		}
		f.put(p)
	}
	h := History{
		Revisions: []rollout.Revision{{Name: "h1", Number: 1}, {Name: "h2", Number: 2}, {Name: "h3", Number: 3}}, Update: 2,
		Index: map[string]int{"h1": 0, "h2": 1, "h3": 2}, Generation: -1, Updated: 500,
	}
	if s, _, ok := f.x.Snapshot(key, h, 1000); !ok || s.Nodes[0].Last != 0 {
		t.Errorf("the guess is %d, want 0: eight nodes run it", s.Nodes[0].Last)
	}
}

func TestSelectedFollowsLabelsAndSelector(t *testing.T) {
	f := newFixture(t)
	f.node("a")
	key := f.limited("ds", func(w *dialect.Workload) { w.NodeSelector = labels.SelectorFromSet(labels.Set{"kind": "canary"}) })
	if f.only(key).Selected {
		t.Error("selected without the label")
	}
	noted := f.noted[key]
	f.x.PutNode(Node{Name: "a", RV: f.next(), Labels: map[string]string{"kind": "canary"}})
	if !f.only(key).Selected || f.noted[key] == noted {
		t.Errorf("not selected with the label, or nobody was told (%d, %d)", f.noted[key], noted)
	}
	w := *f.x.Workload(key)
	w.Generation++
	w.NodeSelector = labels.SelectorFromSet(labels.Set{"kind": "other"})
	f.x.PutSet(key, &w)
	if f.only(key).Selected {
		t.Error("still selected by another selector")
	}
	all := w
	all.Generation++
	all.NodeSelector = nil
	f.x.PutSet(key, &all)
	if !f.only(key).Selected {
		t.Error("no selector does not select")
	}
}

func TestFactsReachTheSnapshot(t *testing.T) {
	f := newFixture(t)
	f.x.ReadFacts(func(p *corev1.Pod) *dialect.PodFacts {
		if p.Annotations == nil {
			return nil
		}
		return &dialect.PodFacts{Gate: true, InPlace: rollout.InPlaceMarked, MarkedAt: 9, Finalizers: p.Finalizers, Trouble: "no image"}
	})
	f.node("a")
	key := f.limited("ds", func(w *dialect.Workload) {
		w.PreDelete, w.Advanced = &dialect.PreDelete{Finalizers: []string{"ours"}}, true
	})
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "one", UID: "one", ResourceVersion: f.next(), Finalizers: []string{"ours"}, Annotations: map[string]string{},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps.kruise.io/v1beta1", Kind: "DaemonSet", UID: "uid-ds", Controller: new(true)}},
		Labels:          map[string]string{"app": "ds"},
	}, Spec: corev1.PodSpec{NodeName: "a"}}
	rec, ok := f.x.PodFrom(object)
	if !ok {
		t.Fatal("the pod is not ours")
	}
	f.x.PutPod(rec)
	got := f.only(key).Pods[0]
	if !got.Gate || got.InPlace != rollout.InPlaceMarked || got.GraceUntil != 9 || got.Hook != rollout.HookArmed || got.Trouble != "no image" {
		t.Errorf("%+v", got)
	}
	rec.RV, rec.Facts = f.next(), &dialect.PodFacts{Gate: true, InPlace: rollout.InPlacePatched, ArrivesBy: 50}
	f.x.PutPod(rec)
	for now, want := range map[rollout.Time]rollout.InPlace{49: rollout.InPlacePatched, 50: rollout.InPlaceArrived} {
		s, wake, _ := f.x.Snapshot(key, History{Generation: -1}, now)
		if got := s.Nodes[0].Pods[0].InPlace; got != want || (wake == 50) != (now < 50) {
			t.Errorf("at %d the change is %s, want %s; it is looked at again at %d", now, got, want, wake)
		}
	}
	object.Annotations = nil
	if rec, _ := f.x.PodFrom(object); rec.Facts != nil {
		t.Error("a pod without facts has some")
	}
}

// TestTimesOfAFastClock: what was noted on pods by a clock that is a day fast keeps nothing waiting; what a minute of difference explains does.
func TestTimesOfAFastClock(t *testing.T) {
	f := newFixture(t)
	now := rollout.Time(100 * 24 * time.Hour)
	f.node("a")
	key := f.limited("ds", func(w *dialect.Workload) { w.Set.Grace = time.Hour })
	for _, c := range []struct {
		fast  time.Duration
		waits bool
	}{{0, true}, {maxAhead - time.Minute, true}, {24 * time.Hour, false}} {
		noted := now.Add(c.fast)
		see := func(of dialect.PodFacts) (rollout.Pod, rollout.Time) {
			p := pod("one", "a", "ds")
			p.RV, p.Facts = f.next(), &of
			f.put(p)
			s, wake, _ := f.x.Snapshot(key, History{Generation: -1}, now)
			return s.Nodes[0].Pods[0], wake
		}
		marked, _ := see(dialect.PodFacts{InPlace: rollout.InPlaceMarked, MarkedAt: noted})
		announced, _ := see(dialect.PodFacts{InPlace: rollout.InPlaceAnnounced, MarkedAt: noted, Due: noted.Add(time.Hour)})
		if marked.GraceUntil > now != c.waits || announced.GraceUntil > now != c.waits {
			t.Errorf("noted %s ahead: waits until %d and %d, and it is %d", c.fast, marked.GraceUntil, announced.GraceUntil, now)
		}
		open, wake := see(dialect.PodFacts{InPlace: rollout.InPlacePatched, ArrivesBy: noted.Add(time.Minute)})
		if (open.InPlace == rollout.InPlacePatched) != c.waits || (wake != 0) != c.waits {
			t.Errorf("noted %s ahead: the change is %s, and it is looked at again at %d", c.fast, open.InPlace, wake)
		}
	}
}

// TestABlockByAFastClock: the clock is set back while a node is left alone, and this does not last as much longer.
func TestABlockByAFastClock(t *testing.T) {
	f := newFixture(t)
	f.node("a")
	key := f.set("ds")
	now := rollout.Time(time.Hour)
	fast := now.Add(time.Hour)
	f.x.Block(inflight.Write{Verb: inflight.Create, Set: key, Node: "a"}, inflight.Block{Reason: "because", From: fast, Until: fast.Add(30 * time.Second)})
	if s, until, _ := f.x.Snapshot(key, History{}, now); s.Nodes[0].Blocked == "" || until != now.Add(inflight.AskAgain) {
		t.Errorf("blocked %q until %d, and it is %d: the pass that finds it out had left the node alone", s.Nodes[0].Blocked, until, now)
	}
	if s, until, _ := f.x.Snapshot(key, History{}, now); s.Nodes[0].Blocked != "" || until != 0 {
		t.Errorf("blocked %q until %d, and it is %d", s.Nodes[0].Blocked, until, now)
	}
}
