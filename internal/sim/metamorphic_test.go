// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var pairs = flag.Int("pairs", 25, "how many pairs of runs each of the tests compares that change what should make no difference")

// life is a run with edits that are given, and with everything else by chance.
type life struct {
	cfg config
	// first are edits that come to their end before anything else happens.
	first []string
	// edits are made one after the other, with some steps in between; calm lets each come to its end before the next.
	edits []string
	calm  bool
	seed  uint64
}

// end is what a life comes to, in words, without what has to differ: names and UIDs of pods, times, and how often something was changed.
type end struct {
	// nodes say what is on each node, in order of the nodes' names; sorted they do not say on which.
	nodes []string
	// status is that of the set, history the images of its revisions, the newest first.
	status, history string
	story           string
}

// live plays a life to its end.
func (l life) live(t *testing.T) end {
	t.Helper()
	var e end
	o := playTo(t, l.cfg, func([]op) int { return -1 }, func(s *sim, _ []op) bool {
		r := rand.New(rand.NewPCG(l.seed, 2))
		for _, text := range l.first {
			s.edit(text)
			s.calm()
		}
		for _, text := range l.edits {
			s.edit(text)
			s.happen(r, r.IntN(40))
			if l.calm {
				s.calm()
			}
		}
		s.calm()
		e = s.end()
		return false
	})
	e.story = o.text()
	if o.broken != nil {
		t.Fatalf("breaks %s\n%s", o.broken, e.story)
	}
	return e
}

// edit makes a user's edit, or changes a node; one that changes nothing is none.
func (s *sim) edit(text string) {
	ops := s.nodeOps(s.userOps(nil))
	if i := slices.IndexFunc(ops, func(o op) bool { return o.text == "a user "+text || o.text == text }); i >= 0 && s.broken == nil {
		s.take(ops[i])
	}
}

// happen takes steps by chance, but none of a user.
func (s *sim) happen(r *rand.Rand, steps int) {
	pick := chance(r, steps)
	for s.broken == nil {
		ops := slices.DeleteFunc(s.ops(), func(o op) bool {
			return strings.HasPrefix(o.text, "a user ") || strings.HasPrefix(o.text, "the quota ")
		})
		i := pick(ops)
		if i < 0 {
			return
		}
		s.take(ops[i])
	}
}

// calm lets everything come to its end, with a specification that stays as it is.
func (s *sim) calm() {
	s.healWorld()
	if s.broken == nil && !s.fair(s.fairRounds()) && s.broken == nil {
		s.blame("liveness", "after %d fair rounds it has not come to rest", s.fairRounds())
	}
}

func (s *sim) end() end {
	var e end
	set := s.w.set()
	for _, n := range s.w.nodes() {
		var pods []string
		for _, p := range s.podsOn(n.Name) {
			pods = append(pods, words("%s running %s, available %t", imageOf(p), runs(p), s.surelyAvailable(p)))
		}
		e.nodes = append(e.nodes, "node "+n.Labels[zoneLabel]+": "+strings.Join(pods, "; "))
	}
	var said []string
	conditions, _, _ := unstructured.NestedSlice(set.Object, "status", "conditions")
	for _, c := range conditions {
		c := c.(map[string]any)
		said = append(said, words("%s %s %s", c["type"], c["status"], c["reason"]))
	}
	slices.Sort(said)
	seen, _, _ := unstructured.NestedInt64(set.Object, "status", "observedGeneration")
	e.status = words("%s; %s; seen %t", numbersOf(set.Object), strings.Join(said, ", "), seen == set.GetGeneration())
	e.history = s.history()
	return e
}

// history are the images of the revisions, the newest first.
func (s *sim) history() string {
	var all []*appsv1.ControllerRevision
	for _, o := range s.w.all(ofRevisions) {
		all = append(all, o.(*appsv1.ControllerRevision))
	}
	slices.SortFunc(all, func(a, b *appsv1.ControllerRevision) int { return int(b.Revision - a.Revision) })
	var images []string
	for _, r := range all {
		images = append(images, imageOfRevision(r))
	}
	return strings.Join(images, " ")
}

func imageOfRevision(r *appsv1.ControllerRevision) string {
	var data map[string]any
	if err := json.Unmarshal(r.Data.Raw, &data); err != nil {
		return err.Error()
	}
	return imageOfSet(&unstructured.Unstructured{Object: data})
}

// same compares two lives that should come to the same.
func same(t *testing.T, one, other life, of func(end) string) {
	t.Helper()
	a, b := one.live(t), other.live(t)
	if of(a) != of(b) {
		t.Fatalf("seed %d: one comes to\n%s\nand the other to\n%s\n\nthe one:\n%s\nthe other:\n%s", one.seed, of(a), of(b), a.story, b.story)
	}
}

func (e end) whole() string { return e.withoutHistory() + "\n" + e.history }

func (e end) withoutHistory() string {
	return strings.Join(append(slices.Clone(e.nodes), e.status), "\n")
}

// anonymous does not say which node is which.
func (e end) anonymous() string {
	for i, n := range e.nodes {
		_, e.nodes[i], _ = strings.Cut(n, ": ") // the names say which nodes a partition keeps back
	}
	slices.Sort(e.nodes)
	return e.whole()
}

// compare plays pairs of lives; each pair begins with a configuration by chance, without what is not wanted to happen.
func compare(t *testing.T, without []string, pair func(r *rand.Rand, l life) (one, other life), of func(end) string) {
	for seed := range uint64(*pairs) {
		r := rand.New(rand.NewPCG(seed+1, 3))
		cfg := anyConfig(r, []string{nativeRun, kruiseRun, edgeRun})
		cfg.faults = slices.DeleteFunc(cfg.faults, func(f string) bool { return slices.Contains(without, f) })
		one, other := pair(r, life{cfg: cfg, seed: seed + 1})
		same(t, one, other, of)
	}
}

// setting are edits that say how a set is updated, of which a roll may be held back.
func setting(r *rand.Rand, cfg config, most int) []string {
	all := []string{"allows 1 unavailable", "allows 2 unavailable", "allows 50% unavailable"}
	if cfg.dialect != edgeRun {
		all = append(all, "allows 1 surging", "allows 2 surging")
	}
	if cfg.dialect == kruiseRun {
		all = append(all, "sets the partition 1", "sets the partition 2", "sets the partition 50%", "selects zone x", "wants changes in place",
			"wants no changes in place", "adds a hook, markPodNotReady true", "adds a hook, markPodNotReady false", "takes the hook away")
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:r.IntN(most+1)]
}

// TestABadChangeLeavesNoTrace: a bad change and then a good one come to the same as the good one alone, but for the history.
func TestABadChangeLeavesNoTrace(t *testing.T) {
	compare(t, []string{"nodes"}, func(r *rand.Rand, l life) (one, other life) {
		l.first = setting(r, l.cfg, 3)
		one, other = l, l
		one.edits, other.edits = []string{"sets the image v4-bad", "sets the image v3"}, []string{"sets the image v3"}
		return one, other
	}, end.withoutHistory)
}

// TestTheOrderOfEditsMakesNoDifference: edits of different things, of which one is a node, come to the same in any order.
func TestTheOrderOfEditsMakesNoDifference(t *testing.T) {
	compare(t, []string{"nodes", "scratch"}, func(r *rand.Rand, l life) (one, other life) {
		edits := []string{"sets the image v2", oneOf(r, "allows 1 unavailable", "allows 2 unavailable", "allows 50% unavailable")}
		if l.cfg.dialect == kruiseRun {
			edits = append(edits, oneOf(r, "adds a hook, markPodNotReady true", "takes the hook away"), oneOf(r, "wants changes in place", "wants no changes in place"))
		}
		if l.cfg.nodes > 1 {
			edits = append(edits, oneOf(r, "n1 is tainted NoExecute", "n1 moves to pool b"))
		}
		one, other = l, l
		one.edits, other.edits = edits, slices.Clone(edits)
		r.Shuffle(len(edits), func(i, j int) { other.edits[i], other.edits[j] = other.edits[j], other.edits[i] })
		return one, other
	}, end.whole)
}

// TestRestartsMakeNoDifference: a set comes to the same whether its manager dies or stands still now and then or not.
func TestRestartsMakeNoDifference(t *testing.T) {
	compare(t, []string{"nodes", "scratch", "crashes"}, func(r *rand.Rand, l life) (one, other life) {
		l.calm = true
		for range 3 {
			l.edits = append(l.edits, setting(r, l.cfg, 2)...)
			l.edits = append(l.edits, oneOf(r, "sets the image v1", "sets the image v2", "sets the image v3"))
		}
		one, other = l, l
		other.cfg.faults = append(slices.Clone(l.cfg.faults), "crashes", "freezes", "storms")
		return one, other
	}, end.whole)
}

// TestNamesOfNodesMakeNoDifference: a set comes to the same whatever its nodes are called, but for which of them are updated first.
func TestNamesOfNodesMakeNoDifference(t *testing.T) {
	compare(t, []string{"nodes", "scratch"}, func(r *rand.Rand, l life) (one, other life) {
		l.calm = true
		l.edits = append(setting(r, l.cfg, 3), "sets the image v2", "sets the image v3")
		one, other = l, l
		other.cfg.faults = append(slices.Clone(l.cfg.faults), "renamed")
		return one, other
	}, end.anonymous)
}

// TestEndsAreReported: the text that the tests above compare differs between runs that differ.
func TestEndsAreReported(t *testing.T) {
	cfg := config{dialect: kruiseRun, nodes: 3, unavailable: "1", surge: "0", faults: []string{"users"}}
	told := map[string]string{}
	for _, edits := range [][]string{
		nil, {"sets the image v2"}, {"sets the image v3"}, {"sets the partition 1", "sets the image v2"}, {"selects zone x", "sets the image v2"},
		{"sets the image v2", "pauses the update"}, {"sets the image v2", "sets the image v1"}, {"sets the image v4-bad"},
	} {
		e := life{cfg: cfg, first: edits, seed: 1}.live(t)
		if other, ok := told[e.whole()]; ok {
			t.Errorf("%q and %s come to the same\n%s", edits, other, e.whole())
		}
		told[e.whole()] = fmt.Sprintf("%q", edits)
	}
}
