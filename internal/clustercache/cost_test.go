// SPDX-License-Identifier: Apache-2.0

package clustercache

import (
	"fmt"
	"reflect"
	"runtime"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/clustercache/inflight"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rollout"
)

// recordLimit is how many bytes a pod of a set on a node may take, everything counted: 100,000 nodes with 20 sets are 2,000,000 of them.
const recordLimit = 512

// heap is how much is in use.
func heap() int {
	runtime.GC()
	runtime.GC() // what the first one finalized
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

func TestRecordsAreSmall(t *testing.T) {
	const nodes, sets = 5000, 5
	f := newFixture(t)
	for i := range nodes {
		f.x.PutNode(nodeNumber(i, f.next()))
	}
	keys := make([]Key, sets)
	for s := range keys {
		keys[s] = f.set(fmt.Sprint("ds", s))
	}
	empty := heap()
	for s := range keys {
		for i := range nodes {
			f.put(podNumber(s, i))
		}
	}
	first := (heap() - empty) / (nodes * sets)
	for s := range keys { // a roll: from now on each state knows what was there
		for i := range nodes {
			old := podNumber(s, i)
			f.x.Begin(inflight.Write{Verb: inflight.Delete, UID: old.UID, Next: "h2"})
			f.x.DeletePod(old.UID, f.next())
			p := old
			p.UID, p.Name = types.UID(fmt.Sprintf("%08x-aaaa-bbbb-cccc-%012x", s, i)), fmt.Sprintf("%s-%s", old.Name[:20], old.UID)
			p.Labels = map[string]string{"app": fmt.Sprint("ds", s), hashLabel: "h2"}
			f.put(p)
		}
	}
	rolled := (heap() - empty) / (nodes * sets)
	t.Logf("%d bytes a record, %d after a roll", first, rolled)
	if first > recordLimit || rolled > recordLimit || first < 100 {
		t.Errorf("%d bytes a record, %d after a roll; want at most %d", first, rolled, recordLimit)
	}
	runtime.KeepAlive(f)
}

// TestSnapshotsCostNoAllocation, whatever the number of nodes, once there is memory for one.
func TestSnapshotsCostNoAllocation(t *testing.T) {
	f, keys := clusterOf(t, 2000, 2)
	var b Buffer
	h := twoRevisions()
	f.x.SnapshotInto(&b, keys[0], h, 1000)
	if n := testing.AllocsPerRun(10, func() { f.x.SnapshotInto(&b, keys[1], h, 1000) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestEventsCostTheSameInEveryCluster: what is allocated for an event does not depend on how much there is.
func TestEventsCostTheSameInEveryCluster(t *testing.T) {
	cost := func(nodes, sets int) (changed, same, heartbeat float64) {
		f, _ := clusterOf(t, nodes, sets)
		p, n := podNumber(0, 5), nodeNumber(5, "")
		versions := make([]string, 0, 100)
		for range cap(versions) {
			versions = append(versions, f.next())
		}
		next := func() (rv string) {
			rv, versions = versions[0], versions[1:]
			return rv
		}
		changed = testing.AllocsPerRun(10, func() {
			p.RV, p.Ready = next(), !p.Ready
			f.x.PutPod(p)
		})
		same = testing.AllocsPerRun(10, func() {
			p.RV = next()
			f.x.PutPod(p)
		})
		heartbeat = testing.AllocsPerRun(10, func() {
			n.RV = next()
			f.x.PutNode(n)
		})
		return changed, same, heartbeat
	}
	c1, s1, h1 := cost(10, 1)
	c2, s2, h2 := cost(2000, 20)
	if c1 != c2 || s1 != s2 || h1 != h2 || max(c1, s1, h1) > 2 {
		t.Errorf("allocations of a changed pod, one with nothing new, a heartbeat: %v %v %v in a small cluster, %v %v %v in a larger one", c1, s1, h1, c2, s2, h2)
	}
}

// TestABufferKeepsNothing of the last Snapshot, of another set in a larger cluster.
func TestABufferKeepsNothing(t *testing.T) {
	f := newFixture(t)
	for i := range 3 {
		f.x.PutNode(nodeNumber(i, f.next()))
	}
	rich := f.limited("rich", func(w *dialect.Workload) { w.PreDelete = &dialect.PreDelete{Labels: map[string]string{"app": "rich"}} })
	poor := f.set("poor")
	for i := range 3 {
		name := nodeNumber(i, "").Name
		p := pod(fmt.Sprint("rich-", i), name, "rich")
		p.Facts = &dialect.PodFacts{Gate: true, InPlace: rollout.InPlaceMarked, Trouble: "much", Announced: dialect.Announced{Said: true}}
		p.Ready, p.DeletedAt = true, 5
		f.put(p)
		f.x.Block(inflight.Write{Verb: inflight.Create, Set: rich, Node: name}, inflight.Block{Reason: "because", From: 900, Until: 2000})
		f.x.Refuse(rich, inflight.Refusal{Node: name, Message: "policy"})
		if i < 2 {
			f.put(pod(fmt.Sprint("poor-", i), name, "poor"))
		}
	}
	var b Buffer
	f.x.SnapshotInto(&b, rich, twoRevisions(), 1000)
	f.x.DeleteNode(nodeNumber(0, "").Name)
	got, _, _ := f.x.SnapshotInto(&b, poor, twoRevisions(), 1000)
	want, _, _ := f.x.Snapshot(poor, twoRevisions(), 1000)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("with a used buffer\n%+v\nwith a new one\n%+v", got.Nodes, want.Nodes)
	}
}

// TestNothingNewIsNoReasonToLook: most versions of a pod change what no Snapshot shows. They count as seen all the same.
func TestNothingNewIsNoReasonToLook(t *testing.T) {
	f := newFixture(t)
	f.node("a")
	key := f.set("ds")
	p := pod("p", "a", "ds")
	p.Facts = &dialect.PodFacts{Finalizers: []string{"x"}}
	f.put(p)
	late := p
	late.RV, late.Ready = f.next(), true
	p.Facts = &dialect.PodFacts{Finalizers: []string{"x"}}
	clear(f.noted)
	p = f.put(p)
	if f.noted[key] != 0 {
		t.Error("a version with nothing new notified")
	}
	if pods, _ := f.x.Versions(); pods != p.RV {
		t.Errorf("the newest version seen is %s, want %s", pods, p.RV)
	}
	f.x.ObservePod(late)
	if f.snapshot(key).Nodes[0].Pods[0].Ready {
		t.Error("a version that is older than one with nothing new was taken")
	}
	for name, change := range map[string]func(*Pod){
		"phase":      func(p *Pod) { p.Phase = rollout.Failed },
		"ready":      func(p *Pod) { p.Ready = !p.Ready },
		"since":      func(p *Pod) { p.ReadySince++ },
		"created":    func(p *Pod) { p.Created++ },
		"deleted":    func(p *Pod) { p.Deleting = true },
		"deleted at": func(p *Pod) { p.DeletedAt++ },
		"bound":      func(p *Pod) { p.Scheduled = !p.Scheduled },
		"node":       func(p *Pod) { p.Node = "b" },
		"generation": func(p *Pod) { p.Generation++ },
		"labels":     func(p *Pod) { p.Labels = map[string]string{"app": "ds", hashLabel: "h2"} },
		"facts":      func(p *Pod) { p.Facts = &dialect.PodFacts{Finalizers: []string{"y"}} },
		"no facts":   func(p *Pod) { p.Facts = nil },
		"owner":      func(p *Pod) { p.Owner = "" },
	} {
		clear(f.noted)
		change(&p)
		p = f.put(p)
		if f.noted[key] == 0 {
			t.Errorf("%s: nobody was told", name)
		}
		p.Owner = "uid-ds"
		p = f.put(p)
		if f.x.pods[p.UID].pod().Phase != p.Phase || !reflect.DeepEqual(f.x.pods[p.UID].pod().Facts, p.Facts) {
			t.Errorf("%s: %+v was not taken over", name, p)
		}
	}
}
