// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// Nothing is kept of sets that come and go: not without a viewer, and not longer than until the next frame.
func TestSetsThatAreGoneAreForgotten(t *testing.T) {
	w := open(t, zoned(t, roll()))
	var m message
	w.read(http.MethodGet, "/api/sets", "", &m) // and leaves
	pages := []interface {
		builder
		note(key clustercache.Key)
		take() map[clustercache.Key]bool
	}{&listPage{s: w.s}, &nodePage{s: w.s, name: "node-3"}}
	for i := range 1000 {
		key := clustercache.Key{Dialect: "kruise", Namespace: "default", Name: fmt.Sprint("gone-", i)} // created, and deleted
		w.s.note(key)
		for _, p := range pages {
			p.note(key)
		}
	}
	for _, p := range pages {
		if _, err := p.build(t.Context()); err != nil {
			t.Error(err)
		}
		if n := len(p.take()); n != 0 {
			t.Errorf("%T keeps %d sets that do not exist", p, n)
		}
	}
	if n := w.s.hubs.count(); n != 0 {
		t.Errorf("there are %d hubs without a viewer", n)
	}
}

// When one of many sets changes, the page of a node evaluates that one: each evaluation is of all nodes. With 1,000 sets on 10,000 nodes, a frame that evaluates all sets takes a
// processor for many seconds, of which one page takes one each second.
func TestThePageOfANodeEvaluatesWhatHasChanged(t *testing.T) {
	const sets = 30
	var objects []runtime.Object
	nodes := map[string]bool{}
	for i := range sets {
		for _, object := range (fakecluster.Roll{Name: fmt.Sprint("agent-", i), Advanced: true, Letters: "uuo"}).Objects(t) {
			if n, is := object.(*corev1.Node); is {
				if nodes[n.Name] {
					continue
				}
				nodes[n.Name] = true
			}
			objects = append(objects, object)
		}
	}
	cluster := fakecluster.New(t, objects...)
	var evaluations, later atomic.Int64
	cluster.Options.Now = func() time.Time { // an evaluation reads the clock
		evaluations.Add(1)
		return fakecluster.Now().Add(time.Duration(later.Load()))
	}
	w := open(t, cluster)
	p := &nodePage{s: w.s, name: "node-3"}
	frame := func() int64 {
		t.Helper()
		evaluations.Store(0)
		f, err := p.build(t.Context())
		if err != nil || len(f.items) != sets {
			t.Fatalf("%d sets are shown, want %d: %v", len(f.items), sets, err)
		}
		return evaluations.Load()
	}
	if n := frame(); n < sets {
		t.Fatalf("the first frame has read the clock %d times", n)
	}
	p.note(clustercache.Key{Dialect: "kruise", Namespace: "default", Name: "agent-7"})
	if n := frame(); n >= sets {
		t.Errorf("after a change of one set the clock was read %d times, for %d sets", n, sets)
	}
	later.Store(int64(detailsPace))
	if n := frame(); n < sets {
		t.Errorf("after %s the clock was read %d times: the verdicts depend on the time, too", detailsPace, n)
	}
}
