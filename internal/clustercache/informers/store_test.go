// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialect"
)

// diary writes down what a store hands on.
type diary struct{ lines []string }

func (d *diary) note(verb string, obj any) {
	d.lines = append(d.lines, verb+" "+obj.(*corev1.Pod).Name)
}
func (d *diary) put(obj any)    { d.note("put", obj) }
func (d *diary) remove(obj any) { d.note("remove", obj) }
func (d *diary) seen(rv string) { d.lines = append(d.lines, "seen "+rv) }
func (d *diary) replace(list []any, rv string) *clustercache.Reverted {
	d.lines = append(d.lines, fmt.Sprintf("replace %d at %s", len(list), rv))
	return nil
}

func podAt(name, rv string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), ResourceVersion: rv}}
}

func TestStoreHandsOnAndKeepsTheVersion(t *testing.T) {
	d := &diary{}
	s := newStore(nil, d)
	for _, step := range []struct {
		do            func() error
		line, version string
	}{
		{func() error { return s.Replace([]any{podAt("a", "3"), podAt("b", "4")}, "5") }, "replace 2 at 5", "5"},
		{func() error { return s.Add(podAt("c", "6")) }, "put c", "6"},
		{func() error { return s.Update(podAt("a", "8")) }, "put a", "8"},
		{func() error { return s.Delete(podAt("b", "9")) }, "remove b", "9"},
		{func() error { return s.Bookmark("20") }, "seen 20", "20"},
		// A list that is older than the last event: a watch that begins there shows everything since once more.
		{func() error { return s.Replace(nil, "15") }, "replace 0 at 15", "15"},
	} {
		if before := s.version(); len(d.lines) == 0 && before != "" {
			t.Errorf("version %s before the first list", before)
		}
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if got := d.lines[len(d.lines)-1]; got != step.line || s.version() != step.version {
			t.Errorf("got %q at %s, want %q at %s", got, s.version(), step.line, step.version)
		}
	}
	before := len(d.lines)
	if err := s.Resync(); err != nil || len(d.lines) != before {
		t.Errorf("a resync did something: %v, %v", err, d.lines[before:])
	}
}

func TestReached(t *testing.T) {
	for name, test := range map[string]struct {
		have, floor string
		want        bool
	}{
		"before the first list":     {"", "5", false},
		"an older list":             {"4", "5", false},
		"the same version":          {"5", "5", true},
		"a newer version":           {"6", "5", true},
		"numbers and not texts":     {"9", "10", false},
		"more than 64 bits":         {"99999999999999999999", "100000000000000000000", false},
		"versions nobody can order": {"x", "5", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &stream{store: newStore(nil, &diary{}), floor: test.floor}
			s.store.setVersion(test.have)
			if got := s.reached(); got != test.want {
				t.Errorf("%q with floor %q: %v, want %v", test.have, test.floor, got, test.want)
			}
		})
	}
}

// fullPod has all that the cache reads, and much that it does not.
func fullPod() *corev1.Pod {
	at, controller := metav1.NewTime(time.Unix(1000, 0)), true
	p := podAt("p", "7")
	p.Labels = map[string]string{appsv1.ControllerRevisionHashLabelKey: "h1", "pod-template-generation": "3"}
	p.Annotations = map[string]string{"long": strings.Repeat("x", 1000)}
	p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "somebody"}}
	p.CreationTimestamp, p.DeletionTimestamp = at, &at
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", UID: "set", Controller: &controller}}
	p.Spec.NodeName = "n1"
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "app:1"}}
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
		{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: at},
	}
	return p
}

// pinned is a pod that is not bound yet; its node is in its affinity.
func pinned() *corev1.Pod {
	p := fullPod()
	p.Spec.NodeName = ""
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{"n2"}},
		}}},
	}}}
	return p
}

// TestRecordsAreWhatIsRead: what is held of an object while a list is streamed is all that the cache reads of it, and nothing else.
func TestRecordsAreWhatIsRead(t *testing.T) {
	x := clustercache.NewIndex(func(clustercache.Key) {})
	x.ReadFacts(func(p *corev1.Pod) *dialect.PodFacts {
		if len(p.Finalizers) == 0 {
			return nil
		}
		return &dialect.PodFacts{Finalizers: p.Finalizers}
	})
	withFacts := fullPod()
	withFacts.Finalizers = []string{"x/y"}
	sink := newPodSink(x)
	for name, pod := range map[string]*corev1.Pod{"bound": fullPod(), "pinned": pinned(), "with facts": withFacts} {
		want, _ := x.PodFrom(pod)
		got, err := sink.record(pod.DeepCopy())
		if err != nil || !reflect.DeepEqual(got, &want) {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, want)
		}
	}
	other := fullPod()
	other.OwnerReferences[0].Kind = "ReplicaSet"
	if got, err := sink.record(other); got != (notOurs{}) || err != nil {
		t.Errorf("of a pod of a ReplicaSet %+v was kept: %v", got, err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "n1", UID: "u", ResourceVersion: "8", Labels: map[string]string{"zone": "a"}, CreationTimestamp: metav1.NewTime(time.Unix(900, 0)),
	}}
	node.Spec = corev1.NodeSpec{Taints: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}}}
	node.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeDiskPressure}, {Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Unix(950, 0))},
	}
	want := &heldNode{record: clustercache.NodeFrom(node)}
	if got, err := (nodeSink{x: x}).record(node.DeepCopy()); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

// nodeDiary writes down what a NodeStore is handed.
type nodeDiary []string

func (d *nodeDiary) Keep(n *corev1.Node) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "kept " + n.Name}}
}
func (d *nodeDiary) Put(kept *corev1.Node) { *d = append(*d, "put "+kept.Name) }
func (d *nodeDiary) Remove(name string)    { *d = append(*d, "remove "+name) }
func (d *nodeDiary) Replace(kept []*corev1.Node) {
	for _, n := range kept {
		*d = append(*d, "replace "+n.Name)
	}
}

// TestNodesAreHandedOn: another store gets what it keeps of each node that the index gets, whether the list was streamed or not.
func TestNodesAreHandedOn(t *testing.T) {
	r, also := newRig(t), &nodeDiary{}
	sink := nodeSink{r.feed.Index, also}
	s := newStore(sink.record, sink)
	named := func(name string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "5"}}
	}
	streamed, err := s.Transformer()(named("n1"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Replace([]any{streamed, named("n2")}, "6"), s.Update(named("n3")), s.Delete(named("n1"))); err != nil {
		t.Fatal(err)
	}
	want := []string{"replace kept n1", "replace kept n2", "put kept n3", "remove n1"}
	if !slices.Equal(*also, want) {
		t.Errorf("handed on: %q, want %q", *also, want)
	}
}

// TestRecordsOfAListShareWhatIsTheSame, and only that.
func TestRecordsOfAListShareWhatIsTheSame(t *testing.T) {
	s := newPodSink(clustercache.NewIndex(func(clustercache.Key) {}))
	record := func(p *corev1.Pod) *clustercache.Pod {
		rec, err := s.record(p)
		if err != nil {
			t.Fatal(err)
		}
		return rec.(*clustercache.Pod)
	}
	copied := func() *corev1.Pod {
		p := fullPod()
		p.Namespace, p.Spec.NodeName = strings.Clone(p.Namespace), strings.Clone(p.Spec.NodeName)
		p.OwnerReferences[0].UID = types.UID(strings.Clone(string(p.OwnerReferences[0].UID)))
		return p
	}
	one, two := record(copied()), record(copied())
	for name, pair := range map[string][2]string{"namespace": {one.Namespace, two.Namespace}, "node": {one.Node, two.Node}, "owner": {string(one.Owner), string(two.Owner)}} {
		if pair[0] != pair[1] || unsafe.StringData(pair[0]) != unsafe.StringData(pair[1]) {
			t.Errorf("the %s is not shared: %q and %q", name, pair[0], pair[1])
		}
	}
	if reflect.ValueOf(one.Labels).Pointer() != reflect.ValueOf(two.Labels).Pointer() {
		t.Error("equal labels are not shared")
	}
	different := copied()
	different.Labels["more"] = "labels"
	if three := record(different); three.Labels["more"] != "labels" || one.Labels["more"] != "" {
		t.Errorf("labels %v and %v", one.Labels, three.Labels)
	}
}

// TestRevisionsOfOthersAreNoRecords: StatefulSets have ControllerRevisions too.
func TestRevisionsOfOthersAreNoRecords(t *testing.T) {
	controller := true
	revision := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "web-1", UID: "r1", ResourceVersion: "4",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", UID: "web", Controller: &controller}},
	}}
	if _, ours := RevisionFrom(revision); ours {
		t.Error("a revision of a StatefulSet was taken")
	}
	revision.OwnerReferences[0].Kind = "DaemonSet"
	rec, ours := RevisionFrom(revision)
	if !ours || rec.Owner != "web" || rec.Hash != "web-1" || rec.Labelled || rec.Template() != nil {
		t.Errorf("without label and data: %+v, %v", rec, ours)
	}
	revision.Labels = map[string]string{appsv1.ControllerRevisionHashLabelKey: "h1"}
	revision.Data.Raw = []byte(`{"spec":{"template":{"$patch":"replace","spec":{"hostNetwork":true}}}}`)
	rec, _ = RevisionFrom(revision)
	if spec, _ := rec.Template()["spec"].(map[string]any); rec.Hash != "h1" || !rec.Labelled || spec["hostNetwork"] != true {
		t.Errorf("with label and data: %+v", rec)
	}
	revision.OwnerReferences = nil
	if rec, ours = RevisionFrom(revision); !ours || rec.Owner != "" {
		t.Errorf("an orphan: %+v, %v", rec, ours)
	}
}

// TestPodThatChangesHandsIsDropped: an orphan that a ReplicaSet adopts is none of a daemon set's any more.
func TestPodThatChangesHandsIsDropped(t *testing.T) {
	r := newRig(t)
	s := newStore(nil, newPodSink(r.feed.Index))
	r.feed.Index.PutNode(clustercache.Node{Name: "n1", RV: "1"})
	r.feed.Index.PutSet(agent, new(digest(set("agent").Object)))
	p := fullPod()
	p.OwnerReferences[0].UID = "agent"
	if err := s.Add(p); err != nil {
		t.Fatal(err)
	}
	if got := r.podsOf(agent); !slices.Equal(got, []string{"n1/p"}) {
		t.Fatalf("pods %v", got)
	}
	taken := p.DeepCopy()
	taken.ResourceVersion, taken.OwnerReferences[0].Kind = "8", "ReplicaSet"
	if err := s.Update(taken); err != nil {
		t.Fatal(err)
	}
	if got := r.podsOf(agent); len(got) != 0 {
		t.Errorf("pods %v", got)
	}
}

// A list that is older than what was seen is no news: the storage has gone back, and what the index has and the list says never were at once.
func TestAListThatIsOlder(t *testing.T) {
	d := &diary{}
	s := newStore(nil, d)
	var told []string
	s.older = func(_, seen, listed string) { told = append(told, seen+" "+listed) }
	for _, rv := range []string{"100", "100", "101", "99"} {
		if err := s.Replace(nil, rv); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(told, []string{"101 99"}) || s.version() != "101" {
		t.Errorf("told %q, and it is at %s", told, s.version())
	}
}
