// SPDX-License-Identifier: Apache-2.0

package clustercache

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/clustercache/inflight"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/placement"
	"everynode.dev/everynode/internal/rollout"
)

// fixture is an Index with a clock of resource versions and a record of notifications.
type fixture struct {
	t     testing.TB
	x     *Index
	rv    int
	noted map[Key]int
}

func newFixture(t testing.TB) *fixture {
	f := &fixture{t: t, noted: map[Key]int{}}
	f.x = NewIndex(func(k Key) { f.noted[k]++ })
	return f
}

func (f *fixture) next() string {
	f.rv++
	return strconv.Itoa(f.rv)
}

func (f *fixture) workload(name string, generation int64, spec map[string]any) *dialect.Workload {
	f.t.Helper()
	rules, err := placement.Compile(spec)
	if err != nil {
		f.t.Fatal(err)
	}
	return &dialect.Workload{
		Namespace: "ns", Name: name, UID: types.UID("uid-" + name), Generation: generation,
		Selector: labels.SelectorFromSet(labels.Set{"app": name}), Placement: rules,
	}
}

func (f *fixture) set(name string) Key {
	key := Key{Dialect: "native", Namespace: "ns", Name: name}
	f.x.PutSet(key, f.workload(name, 1, map[string]any{}))
	return key
}

func (f *fixture) node(name string, taints ...corev1.Taint) {
	f.x.PutNode(Node{Name: name, RV: f.next(), Taints: taints})
}

func pod(name, node, owner string) Pod {
	p := Pod{Namespace: "ns", Name: name, UID: types.UID(name), Node: node, Scheduled: true, Generation: -1, Labels: map[string]string{"app": owner, hashLabel: "h1"}}
	if owner != "" {
		p.Owner = types.UID("uid-" + owner)
	}
	return p
}

func (f *fixture) put(p Pod) Pod {
	p.RV = f.next()
	f.x.PutPod(p)
	return p
}

func (f *fixture) snapshot(key Key) rollout.Snapshot {
	f.t.Helper()
	s, _, ok := f.x.Snapshot(key, History{Revisions: []rollout.Revision{{Name: "h1"}}, Index: map[string]int{"h1": 0}, Generation: -1}, 1000)
	if !ok {
		f.t.Fatalf("no snapshot of %s", key)
	}
	return s
}

// shape renders a snapshot as node=fit[pods…] in order.
func shape(s rollout.Snapshot) string {
	out := ""
	for _, n := range s.Nodes {
		names := make([]string, 0, len(n.Pods))
		for _, p := range n.Pods {
			name := p.Name
			if p.Deleting {
				name += "†"
			}
			names = append(names, name)
		}
		slices.Sort(names)
		out += fmt.Sprintf("%s=%s%v ", n.Name, n.Fit, names)
	}
	return out
}

func (f *fixture) want(key Key, want string) {
	f.t.Helper()
	if got := shape(f.snapshot(key)); got != want {
		f.t.Errorf("snapshot\n got %s\nwant %s", got, want)
	}
}

func TestSnapshotListsNodesInOrderWithTheirPods(t *testing.T) {
	f := newFixture(t)
	f.node("b")
	f.put(pod("p1", "b", "ds"))
	key := f.set("ds")
	f.node("a", corev1.Taint{Key: "k", Effect: corev1.TaintEffectNoSchedule})
	f.node("c", corev1.Taint{Key: "k", Effect: corev1.TaintEffectNoExecute})
	f.put(pod("p2", "c", "ds"))
	f.want(key, "a=may-stay[] b=must-run[p1] c=must-leave[p2] ")
}

func TestAnOlderVersionNeverWins(t *testing.T) {
	f := newFixture(t)
	f.node("a")
	key := f.set("ds")
	old := pod("p", "a", "ds")
	old.RV = f.next()
	observed := old
	observed.Deleting, observed.RV = true, f.next()
	f.x.ObservePod(observed)
	f.x.PutPod(old) // its watch event comes late
	f.want(key, "a=must-run[p†] ")
}

func TestACreatedPodCountsBeforeItsEventComes(t *testing.T) {
	f := newFixture(t)
	f.node("a")
	key := f.set("ds")
	created := pod("p", "a", "ds")
	created.RV = f.next()
	f.x.ObservePod(created)
	f.want(key, "a=must-run[p] ")

	f.x.ReplacePods(nil, strconv.Itoa(f.rv-1)) // a list from before the create
	f.want(key, "a=must-run[p] ")
	f.x.ReplacePods(nil, f.next()) // a list from after it: the pod has come and gone
	f.want(key, "a=must-run[] ")
}

func TestAPodThatCameAndWentIsNotAdded(t *testing.T) {
	f := newFixture(t)
	f.node("a")
	key := f.set("ds")
	created := pod("p", "a", "ds")
	created.RV = f.next()
	f.x.PutPod(created)
	f.x.DeletePod(created.UID, f.next())
	f.x.ObservePod(created) // the answer of the create comes after both events
	f.want(key, "a=must-run[] ")
}

func TestADoomedPodStaysDoomedUntilItIsGone(t *testing.T) {
	f := newFixture(t)
	f.node("a")
	key := f.set("ds")
	p := f.put(pod("p", "a", "ds"))
	f.x.Begin(inflight.Write{Verb: inflight.Delete, UID: p.UID})
	f.want(key, "a=must-run[p†] ")
	f.put(p) // an update by the kubelet that crossed our delete
	f.want(key, "a=must-run[p†] ")
	f.x.Resolve(inflight.Write{Verb: inflight.Delete, UID: p.UID}, inflight.NoEffect)
	f.want(key, "a=must-run[p] ")
}

// The pass whose delete was refused comes back with a growing delay; a notification would bring it back at once, for ever.
func TestARefusedDeleteDoesNotNotify(t *testing.T) {
	f := newFixture(t)
	f.node("a")
	f.set("ds")
	p := f.put(pod("p", "a", "ds"))
	f.x.Begin(inflight.Write{Verb: inflight.Delete, UID: p.UID})
	clear(f.noted)
	f.x.Resolve(inflight.Write{Verb: inflight.Delete, UID: p.UID}, inflight.NoEffect)
	if len(f.noted) != 0 {
		t.Errorf("notified %v", f.noted)
	}
}

func TestPodsOfAGoneNodeAreShownUntilTheyAreGone(t *testing.T) {
	f := newFixture(t)
	f.node("a")
	key := f.set("ds")
	p := f.put(pod("p", "a", "ds"))
	f.x.DeleteNode("a")
	s := f.snapshot(key)
	if len(s.Nodes) != 1 || !s.Nodes[0].Gone || s.Nodes[0].Fit != rollout.MustLeave {
		t.Fatalf("nodes %+v", s.Nodes)
	}
	f.x.DeletePod(p.UID, f.next())
	f.want(key, "")
	f.node("z") // takes the id that a had
	f.want(key, "z=must-run[] ")
}

func TestSetsOnlySeeTheirOwn(t *testing.T) {
	f := newFixture(t)
	f.node("a")
	one, two := f.set("one"), f.set("two")
	f.put(pod("p", "a", "one"))
	f.want(one, "a=must-run[p] ")
	f.want(two, "a=must-run[] ")
	f.x.DeleteSet(one)
	f.set("one")
	f.want(one, "a=must-run[p] ")
}

func TestASuccessorDoesNotInheritPods(t *testing.T) {
	f := newFixture(t)
	f.node("a")
	key := f.set("ds")
	f.put(pod("p", "a", "ds"))
	w := f.workload("ds", 1, map[string]any{})
	w.UID = "another"
	f.x.PutSet(key, w)
	f.want(key, "a=must-run[] ")
}

func TestClaims(t *testing.T) {
	f := newFixture(t)
	f.node("a")
	stranger := pod("stranger", "a", "")
	orphan := pod("orphan", "a", "")
	orphan.Labels = map[string]string{"app": "ds"}
	dying := orphan
	dying.Name, dying.UID, dying.Deleting = "dying", "dying", true
	f.put(stranger)
	f.put(orphan)
	f.put(dying)
	key := f.set("ds")
	relabelled := pod("relabelled", "a", "ds")
	relabelled.Labels = map[string]string{"app": "other"}
	f.put(relabelled)
	c := f.x.Ownership(key, 0)
	if len(c.Adopt) != 1 || c.Adopt[0].Name != "orphan" || len(c.Release) != 1 || c.Release[0].Name != "relabelled" {
		t.Fatalf("claims %+v", c)
	}
	orphan.Owner = "uid-ds"
	f.put(orphan)
	relabelled.Owner = ""
	f.put(relabelled)
	if c := f.x.Ownership(key, 0); len(c.Adopt)+len(c.Release) != 0 {
		t.Errorf("claims after both were done: %+v", c)
	}
}

func TestRevisionOfAPod(t *testing.T) {
	f := newFixture(t)
	f.node("a")
	key := f.set("ds")
	byHash, byGeneration, unknown := pod("hash", "a", "ds"), pod("generation", "a", "ds"), pod("unknown", "a", "ds")
	byGeneration.Labels = map[string]string{"app": "ds", hashLabel: "of-another-version"}
	byGeneration.Generation, byGeneration.Created = 7, 5
	adopted, asOld := pod("adopted", "a", "ds"), pod("as-old", "a", "ds")
	adopted.Generation, adopted.Created = 7, 4
	asOld.Generation, asOld.Created = 7, 5
	later := pod("later", "a", "ds") // made before the storage was restored: the number 7 was that of another template then
	later.Generation, later.Created = 7, 6
	f.put(later)
	f.put(adopted)
	f.put(asOld)
	unknown.Labels = map[string]string{"app": "ds", hashLabel: "gone"}
	f.put(byHash)
	f.put(byGeneration)
	f.put(unknown)
	s, _, _ := f.x.Snapshot(key, History{
		Revisions: []rollout.Revision{{Name: "h1"}, {Name: "h2"}}, Update: 1, Index: map[string]int{"h1": 0, "h2": 1}, Generation: 7, Since: 5,
	}, 0)
	got := map[string]int{}
	for _, p := range s.Nodes[0].Pods {
		got[p.Name] = p.Revision
	}
	if want := map[string]int{"hash": 0, "generation": 1, "adopted": 0, "as-old": 0, "later": 0, "unknown": rollout.NoRevision}; !maps.Equal(got, want) {
		t.Errorf("revisions %v, want %v", got, want)
	}
}

func TestNotifiesOnlyWhomItConcerns(t *testing.T) {
	f := newFixture(t)
	f.x.PutNode(Node{Name: "a", RV: f.next(), Ready: true, Since: 4})
	one, two := f.set("one"), f.set("two")
	clear(f.noted)
	f.put(pod("p", "a", "one"))
	if f.noted[one] == 0 || f.noted[two] != 0 {
		t.Errorf("a pod of one notified %v", f.noted)
	}
	clear(f.noted)
	f.x.PutNode(Node{Name: "a", RV: f.next(), Ready: true, Since: 5})
	if len(f.noted) != 0 {
		t.Errorf("a heartbeat notified %v", f.noted)
	}
	f.x.PutNode(Node{Name: "a", RV: f.next(), Ready: true, Taints: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}}})
	if f.noted[one] == 0 || f.noted[two] == 0 {
		t.Errorf("a taint notified %v", f.noted)
	}
	clear(f.noted)
	f.x.PutNode(Node{Name: "a", RV: f.next(), Taints: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}}})
	if f.noted[one] == 0 || f.noted[two] != 0 {
		t.Errorf("a node with a pod of one is not ready any more; that notified %v", f.noted)
	}
	clear(f.noted)
	f.x.PutNode(Node{Name: "a", RV: f.next(), Taints: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}})
	if f.noted[one] == 0 || f.noted[two] == 0 {
		t.Errorf("another effect of a taint notified %v", f.noted)
	}
	clear(f.noted)
	f.x.DeleteNode("a") // the numbers of both are others now
	if f.noted[one] == 0 || f.noted[two] == 0 {
		t.Errorf("the end of a node notified %v", f.noted)
	}
}

func TestOurOwnStatusWriteLeadsToNoPass(t *testing.T) {
	f := newFixture(t)
	key := f.set("ds")
	clear(f.noted)
	status := rollout.Status{Desired: 3}
	w := f.workload("ds", 1, map[string]any{})
	w.Status, w.ObservedGeneration, w.UpdateRevision = status, 1, "h1"
	w.Conditions = []appsv1.DaemonSetCondition{{Type: "Progressing", Status: corev1.ConditionTrue}}
	f.x.ObserveStatus(key, w)
	w = new(*w)
	f.x.PutSet(key, w)
	if f.noted[key] != 0 {
		t.Error("the event of an observed status write notified")
	}
	w = f.workload("ds", 1, map[string]any{})
	f.x.PutSet(key, w)
	if f.noted[key] == 0 {
		t.Error("a status that somebody else has changed did not notify")
	}
}

func TestPredecessor(t *testing.T) {
	f := newFixture(t)
	f.node("a")
	key := f.set("ds")
	want := func(want types.UID, hash string) {
		t.Helper()
		if got := f.x.Predecessor(key, "a", "name", hash); got != want {
			t.Errorf("predecessor %q, want %q", got, want)
		}
	}
	want("", "h1")
	p := pod("name", "a", "ds")
	f.put(p)
	want("name", "h1")
	f.x.DeletePod(p.UID, f.next())
	want("name", "h1")
	want("", "h2")
	f.put(pod("other", "a", "ds"))
	want("name", "h1") // a create that is repeated asks for the same name as long as its pod has not come and gone
	f.x.DeletePod("other", f.next())
	want("other", "h1")
	f.x.DeleteNode("a")
	f.node("a")
	want("", "h1")

	released := f.put(pod("released", "a", "ds"))
	released.Owner = ""
	f.put(released)
	want("released", "h1") // it lives on and keeps its name
}

// TestAPendingCreateOutlivesItsNode: its pod may still come, be the node another one by then.
func TestAPendingCreateOutlivesItsNode(t *testing.T) {
	f := newFixture(t)
	f.node("a")
	key, other := f.set("ds"), f.set("other")
	before := f.put(pod("before", "a", "ds"))
	f.x.DeletePod(before.UID, f.next())
	f.x.Resolve(inflight.Write{Verb: inflight.Create, Set: key, Node: "a", Pod: "p", Until: 5000}, inflight.Unclear)
	f.x.DeleteNode("a")
	f.want(key, "")
	if _, again, _ := f.x.Snapshot(key, History{}, 1000); again == 0 {
		t.Error("nobody comes back to see what became of the create")
	}
	f.node("a")
	if n := f.snapshot(key).Nodes[0]; n.Blocked == "" || len(f.x.Ownership(key, 0).Pending) != 1 || f.x.Predecessor(key, "a", "p", "h1") != before.UID {
		t.Errorf("the create is forgotten: %+v", n)
	}
	if n := f.snapshot(other).Nodes[0]; n.Blocked != "" {
		t.Errorf("another set waits for it: %s", n.Blocked)
	}
	f.x.DeleteNode("a")
	f.x.Resolve(inflight.Write{Verb: inflight.Create, Set: key, Node: "a"}, inflight.NoEffect)
	f.x.Resolve(inflight.Write{Verb: inflight.Create, Set: key, Node: "gone", Pod: "p", Until: 5000}, inflight.Unclear) // the answer came after the end of the node
	f.node("gone")
	if n := f.snapshot(key).Nodes[0]; n.Blocked == "" {
		t.Errorf("the create on a node that was gone is forgotten: %+v", n)
	}
	f.x.DeleteNode("gone")
	f.x.DeleteSet(key)
	if len(f.x.nodes.byName) != 0 {
		t.Errorf("nodes are kept: %v", f.x.nodes.byName)
	}
}

func TestBlocksEnd(t *testing.T) {
	f := newFixture(t)
	f.node("a")
	key := f.set("ds")
	f.x.Block(inflight.Write{Verb: inflight.Create, Set: key, Node: "a"}, inflight.Block{Reason: "because", From: 900, Until: 2000})
	s, until, _ := f.x.Snapshot(key, History{}, 1000)
	if s.Nodes[0].Blocked != "because" || until != 2000 {
		t.Errorf("blocked %q until %d", s.Nodes[0].Blocked, until)
	}
	s, until, _ = f.x.Snapshot(key, History{}, 2000)
	if s.Nodes[0].Blocked != "" || until != 0 {
		t.Errorf("blocked %q until %d after its end", s.Nodes[0].Blocked, until)
	}
}

func TestANewTemplateIsPlacedAgain(t *testing.T) {
	f := newFixture(t)
	f.x.PutNode(Node{Name: "a", RV: f.next(), Labels: map[string]string{"role": "edge"}})
	f.x.PutNode(Node{Name: "b", RV: f.next()})
	key := f.set("ds")
	f.x.PutSet(key, f.workload("ds", 2, map[string]any{"nodeSelector": map[string]any{"role": "edge"}}))
	f.want(key, "a=must-run[] b=must-leave[] ")
	f.x.PutNode(Node{Name: "b", RV: f.next(), Labels: map[string]string{"role": "edge"}})
	f.want(key, "a=must-run[] b=must-run[] ")
}

func TestPodFromReadsOwnersOfEveryVersion(t *testing.T) {
	for apiVersion, want := range map[string]bool{
		"apps/v1": true, "extensions/v1beta1": false, "appsx/v1": false, "apps.kruise.io/v1alpha1": true, "apps.kruise.io/v1beta1": true, "example.io/v1": false,
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Node", UID: "no"}, {APIVersion: apiVersion, Kind: "DaemonSet", UID: "yes", Controller: new(true)},
		}}}
		rec, ok := PodFrom(p)
		if ok != want || (ok && rec.Owner != "yes") {
			t.Errorf("%s: %v, owner %q", apiVersion, ok, rec.Owner)
		}
	}
	if _, ok := PodFrom(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Controller: new(true)}}}}); ok {
		t.Error("a pod of a ReplicaSet was taken")
	}
}

// A read has found that the pod is gone, so it has a successor; then the watch, which is late, shows what the pod was before. It must not count
// as a second pod of its node: of two, the younger one would be deleted, which is the successor.
func TestLateNewsOfAPodThatIsGone(t *testing.T) {
	f := newFixture(t)
	f.node("a")
	key := f.set("ds")
	old := f.put(pod("old", "a", "ds"))
	f.x.ConfirmDeleted(old.UID)
	successor := pod("new", "a", "ds")
	successor.RV = f.next()
	f.x.ObservePod(successor)
	only := func(when string) {
		t.Helper()
		if pods := f.snapshot(key).Nodes[0].Pods; len(pods) != 1 || pods[0].Name != "new" {
			t.Errorf("%s: pods %+v, want only the successor", when, pods)
		}
	}
	f.put(old)
	only("a late event")
	f.x.ReplacePods([]*Pod{&old}, old.RV)
	only("an old list")
	f.x.DeletePod(old.UID, f.next())
	only("the end of it")
	if len(f.x.confirmedDeleted) != 0 {
		t.Errorf("%d pods are remembered although the watch has shown their end", len(f.x.confirmedDeleted))
	}
	last := f.put(pod("last", "a", "ds"))
	f.x.ConfirmDeleted(last.UID)
	f.x.ReplacePods([]*Pod{&successor}, f.next())
	only("a list without it")
	if len(f.x.confirmedDeleted) != 0 {
		t.Errorf("%d pods are remembered although a list has shown that they are gone", len(f.x.confirmedDeleted))
	}
}
