// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/fleet"
)

// diary writes down what a store hands on.
type diary struct{ lines []string }

func (d *diary) note(verb string, obj any) {
	d.lines = append(d.lines, verb+" "+obj.(*corev1.Pod).Name)
}
func (d *diary) put(obj any)    { d.note("put", obj) }
func (d *diary) remove(obj any) { d.note("remove", obj) }
func (d *diary) seen(rv string) { d.lines = append(d.lines, "seen "+rv) }
func (d *diary) replace(list []any, rv string) {
	d.lines = append(d.lines, fmt.Sprintf("replace %d at %s", len(list), rv))
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

// fullPod has all that the fleet reads, and much that it does not.
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

// TestSlimLosesNothingThatIsRead compares what the fleet reads of an object before and after it was cut down.
func TestSlimLosesNothingThatIsRead(t *testing.T) {
	x := fleet.NewIndex(func(fleet.Key) {})
	for name, pod := range map[string]*corev1.Pod{"bound": fullPod(), "pinned": pinned()} {
		want, _ := x.PodFrom(pod)
		slim, err := slimPods(x)(pod.DeepCopy())
		if err != nil {
			t.Fatal(err)
		}
		got, ours := x.PodFrom(slim.(*corev1.Pod))
		if !ours || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
		if s := slim.(*corev1.Pod); s.Annotations != nil || s.ManagedFields != nil || s.Spec.Containers != nil || len(s.Status.Conditions) != 1 {
			t.Errorf("%s: what nobody reads was kept: %+v", name, s)
		}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "n1", UID: "u", ResourceVersion: "8", Labels: map[string]string{"zone": "a"}, CreationTimestamp: metav1.NewTime(time.Unix(900, 0)),
		Annotations: map[string]string{"long": "x"},
	}}
	node.Spec = corev1.NodeSpec{Unschedulable: true, Taints: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}}, PodCIDR: "10.0.0.0/24"}
	node.Status.Images = []corev1.ContainerImage{{Names: []string{"app:1"}}}
	node.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeDiskPressure}, {Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Unix(950, 0))},
	}
	want := fleet.NodeFrom(node)
	slim, err := slimNode(node.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	if s := slim.(*corev1.Node); !reflect.DeepEqual(fleet.NodeFrom(s), want) || s.Annotations != nil || s.Status.Images != nil {
		t.Errorf("got %+v of %+v, want %+v", fleet.NodeFrom(s), s, want)
	}
}

// TestSlimKeepsWhatFactsAreMadeOf: a dialect that reads facts may read anything.
func TestSlimKeepsWhatFactsAreMadeOf(t *testing.T) {
	x := fleet.NewIndex(func(fleet.Key) {})
	x.ReadFacts(func(p *corev1.Pod) *dialect.PodFacts {
		if len(p.Annotations) == 0 {
			return nil
		}
		return &dialect.PodFacts{}
	})
	full := fullPod()
	full.Generation, full.Status.ObservedGeneration, full.Finalizers = 3, 2, []string{"x/y"}
	full.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "x/ready"}}
	full.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: quantity.MustParse("1")}
	full.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", ContainerID: "c-1"}}
	full.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "first", RestartCount: 2}}
	want := full.DeepCopy()
	full.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "LONG", Value: strings.Repeat("x", 1000)}}
	full.Spec.Volumes = []corev1.Volume{{Name: "v"}}
	kept, err := slimPods(x)(full)
	if err != nil {
		t.Fatal(err)
	}
	want.ManagedFields = nil
	if !reflect.DeepEqual(kept, want) {
		t.Errorf("of a pod with facts this was kept:\n%+v\nwant\n%+v", kept, want)
	}
	plain := fullPod()
	plain.Annotations = nil
	cut, err := slimPods(x)(plain)
	if err != nil {
		t.Fatal(err)
	}
	if p := cut.(*corev1.Pod); p.Spec.Containers != nil {
		t.Errorf("of a pod without facts %+v was kept", p)
	}
}

// TestRevisionsOfOthersAreNoRecords: StatefulSets have ControllerRevisions too.
func TestRevisionsOfOthersAreNoRecords(t *testing.T) {
	controller := true
	revision := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "web-1", UID: "r1", ResourceVersion: "4",
		OwnerReferences: []metav1.OwnerReference{{Kind: "StatefulSet", UID: "web", Controller: &controller}},
	}}
	if _, ours := RevisionFrom(revision); ours {
		t.Error("a revision of a StatefulSet was taken")
	}
	revision.OwnerReferences[0].Kind = "DaemonSet"
	rec, ours := RevisionFrom(revision)
	if !ours || rec.Owner != "web" || rec.Hash != "web-1" || rec.Labelled || rec.Template != nil {
		t.Errorf("without label and data: %+v, %v", rec, ours)
	}
	revision.Labels = map[string]string{appsv1.ControllerRevisionHashLabelKey: "h1"}
	revision.Data.Raw = []byte(`{"spec":{"template":{"$patch":"replace","spec":{"hostNetwork":true}}}}`)
	rec, _ = RevisionFrom(revision)
	if spec, _ := rec.Template["spec"].(map[string]any); rec.Hash != "h1" || !rec.Labelled || spec["hostNetwork"] != true {
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
	s := newStore(nil, podSink{r.feed.Index})
	r.feed.Index.PutNode(fleet.Node{Name: "n1", RV: "1"})
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
