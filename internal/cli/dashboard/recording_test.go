// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/internal/cli/resolver"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/rollout"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// replay returns the picture at a time, as the page computes it.
func (p *past) replay(at moment) map[string]pastState {
	now := map[string]pastState{}
	put := func(node string, state int) {
		if delete(now, node); state >= 0 {
			now[node] = p.States[state]
		}
	}
	for i, state := range p.Base {
		put(p.Nodes[i], state)
	}
	for i := 0; i < len(p.Changes) && p.Began+moment(p.Changes[i]) <= at; i += 3 {
		put(p.Nodes[p.Changes[i+1]], int(p.Changes[i+2]))
	}
	return now
}

// picture is a random picture of ten nodes.
func picture(r *rand.Rand) (nodes []nodeState) {
	for i := range 10 {
		if r.IntN(4) > 0 {
			nodes = append(nodes, nodeState{fmt.Sprintf("n%d", i), state{rollout.VerdictKind(r.IntN(3)), []string{"", "a", "b"}[r.IntN(3)], r.IntN(5) == 0}})
		}
	}
	return nodes
}

func shown(nodes []nodeState) map[string]pastState {
	all := map[string]pastState{}
	for _, n := range nodes {
		all[n.node] = pastState{n.verdict.String(), n.revision, n.notReady}
	}
	return all
}

// What is played back is what was there, at every time that is kept, however much was folded.
func TestPlayback(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 30 {
		r, seen := &recording{}, map[moment]map[string]pastState{}
		for at := moment(1000); at < 1000+200*2000; at += 2000 {
			nodes := picture(random)
			seen[at] = shown(nodes)
			r.look(at, nodes)
			if random.IntN(20) == 0 {
				r.fold(random.IntN(len(r.changes) + 1))
			}
			if random.IntN(50) == 0 {
				r.forget(at - 20_000)
			}
		}
		p, kept := r.past(), 0
		for at, want := range seen {
			if at < p.Began || at == p.Began && p.Folded {
				continue
			}
			kept++
			for _, later := range []moment{0, 1999} {
				if got := p.replay(at + later); !maps.Equal(got, want) {
					t.Fatalf("at %d of %d to %d: got %v, want %v", at+later, p.Began, p.Until, got, want)
				}
			}
		}
		if kept == 0 || len(p.Gaps) > 0 || p.Until != 1000+199*2000 {
			t.Fatalf("%d pictures are kept, the gaps are %v, and it ends at %d", kept, p.Gaps, p.Until)
		}
	}
}

// Only changes are kept, in the order of their times, and a node that leaves and comes back is a change each time.
func TestOnlyChangesAreRecorded(t *testing.T) {
	r := &recording{}
	a, b := nodeState{"a", state{revision: "1"}}, nodeState{"b", state{revision: "1"}}
	fresh := nodeState{"a", state{revision: "2"}}
	for i, nodes := range [][]nodeState{{a, b}, {a, b}, {fresh, b}, {fresh}, {fresh}, {fresh, b}} {
		r.look(moment(i*1000), nodes)
	}
	want := []change{{2000, fresh, false}, {3000, nodeState{node: "b"}, true}, {5000, b, false}}
	if !reflect.DeepEqual(r.changes, want) || r.folded || r.began != 0 || r.seen != 5000 {
		t.Errorf("the changes are %+v, from %d to %d", r.changes, r.began, r.seen)
	}
}

// A time without a look is a gap: what has changed meanwhile is known only from its end on.
func TestGaps(t *testing.T) {
	r := &recording{}
	was, is := []nodeState{{"a", state{revision: "1"}}}, []nodeState{{"a", state{revision: "2"}}}
	silence := moment(longestSilence.Milliseconds())
	r.look(0, was)
	r.look(silence, was) // just in time
	r.look(3*silence, is)
	r.look(5*silence, is) // nothing has changed, and it is not known whether that was so all the time
	if want := []gap{{silence, 3 * silence}, {3 * silence, 5 * silence}}; !reflect.DeepEqual(r.gaps, want) {
		t.Errorf("the gaps are %v, want %v", r.gaps, want)
	}
	r.forget(2 * silence)
	if p := r.past(); !reflect.DeepEqual(p.Gaps, [][2]moment{{2 * silence, 3 * silence}, {3 * silence, 5 * silence}}) || p.Began != 2*silence || !p.Folded {
		t.Errorf("a gap is cut off: %+v", p)
	}
	r.forget(4 * silence)
	if p := r.past(); !reflect.DeepEqual(p.Gaps, [][2]moment{{4 * silence, 5 * silence}}) || len(p.Changes) > 0 || p.replay(p.Began)["a"].Revision != "2" {
		t.Errorf("a gap is forgotten: %+v", p)
	}
}

// A look that comes late is not recorded after a newer one, and when the clock is set back the recording begins there.
func TestLooksInAnotherOrder(t *testing.T) {
	r := &recording{uid: "1"}
	for _, at := range []moment{100_000, 102_000, 101_000} {
		r.look(at, []nodeState{{"a", state{revision: fmt.Sprint(at)}}})
	}
	if len(r.changes) != 1 || r.seen != 102_000 || r.now["a"].revision != "102000" {
		t.Errorf("after a late look: %+v", r)
	}
	r.look(10_000, []nodeState{{"a", state{}}})
	if r.began != 10_000 || len(r.changes) != 0 || r.uid != "1" {
		t.Errorf("after the clock was set back: %+v", r)
	}
}

// The bound of one set folds the oldest changes, and so does their age.
func TestARecordingIsBounded(t *testing.T) {
	r, at := &recording{}, moment(0)
	nodes := make([]nodeState, 1000)
	for i := range 2*mostChanges/len(nodes) + 5 {
		for j := range nodes {
			nodes[j] = nodeState{fmt.Sprintf("n%03d", j), state{revision: fmt.Sprint(i)}}
		}
		r.look(at, nodes)
		at += 1000
		if len(r.changes) > mostChanges || len(r.base()) != len(nodes) || len(r.now) != len(nodes) {
			t.Fatalf("there are %d changes, %d and %d nodes", len(r.changes), len(r.base()), len(r.now))
		}
	}
	if !r.folded || len(r.changes) != mostChanges || r.base()["n000"].revision != "104" || cap(r.changes) > 4*mostChanges {
		t.Errorf("%d changes are left (room for %d), the first picture has revision %s", len(r.changes), cap(r.changes), r.base()["n000"].revision)
	}
	at += moment(oldest.Milliseconds())
	if r.look(at, nodes); len(r.changes) != 0 || r.began != at-moment(oldest.Milliseconds()) || r.base()["n000"].revision != "204" {
		t.Errorf("after %s %d changes are left, from %d", oldest, len(r.changes), r.began)
	}
}

// The bound of all sets drops what is not viewed and has no changes, then changes of the set with most of them, and what is viewed last.
func TestAllRecordingsAreBounded(t *testing.T) {
	r, begin := newRecorder(), fakecluster.Now()
	key := func(name string) clustercache.Key { return clustercache.Key{Namespace: "default", Name: name} }
	nodes := func(revision string) (all []nodeState) {
		for i := range 10 {
			all = append(all, nodeState{fmt.Sprintf("n%d", i), state{revision: revision}})
		}
		return all
	}
	for i, name := range []string{"eldest", "busy", "open"} {
		leave := r.view(key(name), func() time.Time { return begin.Add(time.Duration(i) * time.Minute) })
		if name != "open" {
			leave()
		}
		r.take(key(name), "1", begin, nodes("0"))
	}
	for i := range 10 {
		r.take(key("busy"), "1", begin.Add(time.Duration(i)*time.Second), nodes(fmt.Sprint(i)))
	}
	r.take(key("eldest"), "1", begin.Add(time.Second), nodes("1"))
	sizes := func() [3]int {
		return [3]int{r.sets[key("eldest")].size(), r.sets[key("busy")].size(), r.sets[key("open")].size()}
	}
	for _, step := range []struct {
		most int
		want [3]int
	}{{150, [3]int{30, 110, 10}}, {100, [3]int{30, 60, 10}}, {60, [3]int{30, 10, 10}}, {39, [3]int{28, 0, 10}}, {20, [3]int{10, 0, 10}}, {19, [3]int{0, 0, 10}}, {0, [3]int{}}} {
		r.most = step.most
		if r.bound(); sizes() != step.want {
			t.Errorf("bounded by %d, the sizes are %v, want %v", step.most, sizes(), step.want)
		}
	}
	if _, err := r.past(key("eldest")); err == nil {
		t.Error("something is played back that was dropped")
	}
	r.most = 25
	for i := range 3 {
		if r.take(key("open"), "1", begin.Add(time.Duration(i)*time.Second), nodes(fmt.Sprint(i))); sizes()[2] > r.most {
			t.Errorf("a look leaves %d entries", sizes()[2])
		}
	}
}

// A set is looked at when its page is opened, when it has changed, and from time to time; and no more when its page was not open for long.
func TestDue(t *testing.T) {
	r, now, key := newRecorder(), fakecluster.Now(), clustercache.Key{Name: "agent"}
	clock := func() time.Time { return now }
	r.touch(key) // it is not recorded
	leave := r.view(key, clock)
	<-r.wake
	for i, step := range []struct {
		later   time.Duration
		changed bool
		due     bool
	}{{0, false, true}, {recordPace, false, false}, {recordPace, true, true}, {recordPace, false, false}, {quietPace, false, true}, {2 * recordedFor, false, true}} {
		now = now.Add(step.later)
		if step.changed {
			r.touch(key)
		}
		if due := len(r.due(now)) == 1; due != step.due {
			t.Errorf("step %d: it is due: %t", i, due)
		}
	}
	leave()
	leave()
	if now = now.Add(recordedFor - 1); len(r.due(now)) != 1 {
		t.Error("it is recorded for too short after its page was closed")
	}
	if now = now.Add(1); len(r.due(now)) != 0 || len(r.sets) != 0 {
		t.Error("it is recorded although its page was not open for long")
	}
}

// The recording begins when the page is opened, and goes on without a viewer; nothing is recorded of a set whose page was never open. The recording of
// another set with the same name begins with that set.
func TestPast(t *testing.T) {
	cluster, now := zoned(t, roll()), fakecluster.Now()
	watched := cluster.Watched("pods")
	w := open(t, cluster)
	<-watched
	var p past
	if code := w.read(http.MethodGet, "/api/set/past"+setQuery, "", &p); code != http.StatusNotFound {
		t.Errorf("before the page was opened: %d", code)
	}
	var m message
	w.read(http.MethodGet, "/api/set"+setQuery, "", &m)
	key, err := resolver.Key("default", "ads/agent")
	if err != nil {
		t.Fatal(err)
	}
	if code := w.read(http.MethodGet, "/api/set/past"+setQuery, "", &p); code != http.StatusOK || p.Began != moment(now.UnixMilli()) || len(p.Base) != 8 || len(p.Changes) != 0 {
		t.Errorf("%d: %+v", code, p)
	}
	if s := p.replay(p.Began); s["node-1"] != (pastState{"up-to-date", fakecluster.NewHash, false}) || !s["node-5"].NotReady {
		t.Errorf("the picture is %v", s)
	}
	pods := cluster.Kubernetes.CoreV1().Pods("default")
	if err := pods.Delete(t.Context(), "agent-node-1-"+fakecluster.NewHash[:3], metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	began := p.Began
	for p = (past{}); len(p.Changes) == 0; {
		w.s.look(t.Context(), key) // until the watch has reported it
		w.read(http.MethodGet, "/api/set/past"+setQuery, "", &p)
	}
	if is := p.replay(p.Until)["node-1"]; p.Began != began || is.Verdict == "up-to-date" || is.Revision != "" || p.Changes[0] != 0 {
		t.Errorf("the pod is gone, and the picture is %v: %+v", is, p)
	}
	w.s.recorder.take(key, "another", now, []nodeState{{node: "x"}})
	if p = (past{}); w.read(http.MethodGet, "/api/set/past"+setQuery, "", &p) != http.StatusOK || len(p.Nodes) != 1 || len(p.Changes) != 0 {
		t.Errorf("of another set of the name: %+v", p)
	}
	for path, code := range map[string]int{"/api/set/past?namespace=default&set=ads/none": http.StatusNotFound, "/api/set/past?namespace=default&set=x/y/z": http.StatusBadRequest} {
		if got := w.read(http.MethodGet, path, "", &map[string]string{}); got != code {
			t.Errorf("%s: %d, want %d", path, got, code)
		}
	}
}
