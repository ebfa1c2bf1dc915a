// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
)

// story writes a log by hand: each step is one event, one version and one second after the one before.
type story struct {
	log  []Event
	now  time.Time
	pods map[string]*corev1.Pod
	set  *appsv1.DaemonSet
	// deaths are those of the API server.
	deaths []time.Time
}

func newStory(nodes int, unavailable, surge intstr.IntOrString) *story {
	s := &story{now: time.Unix(1_000_000, 0), pods: map[string]*corev1.Pod{}}
	s.set = &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "ds", UID: "set", Generation: 1}}
	s.set.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{
		Type:          appsv1.RollingUpdateDaemonSetStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &unavailable, MaxSurge: &surge},
	}
	s.putSet()
	for i := range nodes {
		s.add(watch.Added, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i)}})
	}
	return s
}

// rolled is a story that begins with one ready pod on each node.
func rolled(nodes int, unavailable, surge intstr.IntOrString) *story {
	s := newStory(nodes, unavailable, surge)
	for i := range nodes {
		s.create(fmt.Sprintf("old%d", i), fmt.Sprintf("n%d", i)).ready(fmt.Sprintf("old%d", i))
	}
	return s
}

func (s *story) add(kind watch.EventType, object metav1.Object) *story {
	s.now = s.now.Add(time.Second)
	version := uint64(len(s.log) + 1)
	object.SetResourceVersion(fmt.Sprint(version))
	s.log = append(s.log, Event{Version: version, At: s.now, Type: kind, Object: object})
	return s
}

func (s *story) putSet() *story { return s.add(watch.Modified, s.set.DeepCopy()) }

func (s *story) create(name, node string) *story {
	controller := true
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: types.UID("uid-" + name),
		OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", UID: s.set.UID, Controller: &controller}},
	}}
	pod.Spec.NodeName = node
	s.pods[name] = pod
	return s.add(watch.Added, pod.DeepCopy())
}

func (s *story) change(name string, edit func(*corev1.Pod)) *story {
	edit(s.pods[name])
	return s.add(watch.Modified, s.pods[name].DeepCopy())
}

func (s *story) setReady(name string, status corev1.ConditionStatus) *story {
	return s.change(name, func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(s.now)},
		}
	})
}

func (s *story) ready(name string) *story   { return s.setReady(name, corev1.ConditionTrue) }
func (s *story) unready(name string) *story { return s.setReady(name, corev1.ConditionFalse) }

func (s *story) failed(name string) *story {
	return s.change(name, func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed })
}

func (s *story) succeeded(name string) *story {
	return s.change(name, func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded })
}

func (s *story) terminate(name string) *story {
	return s.change(name, func(pod *corev1.Pod) { now := metav1.NewTime(s.now); pod.DeletionTimestamp = &now })
}

func (s *story) gone(name string) *story { return s.add(watch.Deleted, s.pods[name].DeepCopy()) }

func (s *story) replace(old, fresh, node string) *story {
	return s.terminate(old).gone(old).create(fresh, node).ready(fresh)
}

// rules make nodes eligible that carry no label "no".
func rules() Rules {
	return Rules{Namespace: "ns", Name: "ds", Eligible: func(node *corev1.Node, _ *appsv1.DaemonSet) bool {
		return node.Labels["no"] == ""
	}}
}

func (s *story) judge() Report { return Judge(s.log, rules()) }

func wantInvariants(t *testing.T, report Report, want ...Invariant) {
	t.Helper()
	var got []Invariant
	for _, v := range report.Violations {
		got = append(got, v.Invariant)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("violations %v, want %v: %v", got, want, report.Err())
	}
}

var (
	zero = intstr.FromInt32(0)
	one  = intstr.FromInt32(1)
	half = intstr.FromString("50%")
)

func TestGoodLogs(t *testing.T) {
	tests := map[string]struct {
		story       *story
		unavailable int
		pods        int
	}{
		"a roll one by one": {
			rolled(3, one, zero).replace("old0", "new0", "n0").replace("old1", "new1", "n1").replace("old2", "new2", "n2"), 1, 1},
		"two at once with half of three rounded up": {
			rolled(3, half, zero).terminate("old0").terminate("old1").gone("old0").create("new0", "n0").ready("new0").
				gone("old1").create("new1", "n1").ready("new1"), 2, 1},
		"a surge": {
			rolled(2, zero, one).create("new0", "n0").ready("new0").terminate("old0").gone("old0"), 0, 2},
		"the next surge as soon as the first pod is ready, the old one still terminating": {
			rolled(2, zero, one).create("new0", "n0").ready("new0").create("new1", "n1").terminate("old0").ready("new1").
				gone("old0").terminate("old1").gone("old1"), 0, 2},
		"a surge pod next to an old one that is not ready does not count": {
			rolled(3, one, one).unready("old0").create("new0", "n0").create("new1", "n1"), 1, 2},
		"both budgets 0 mean one": {
			rolled(2, zero, zero).replace("old0", "new0", "n0"), 1, 1},
		"a failed pod that hangs and its successor": {
			rolled(2, one, zero).failed("old0").terminate("old0").create("new0", "n0").ready("new0").gone("old0"), 1, 1},
		"a pod that fails while it is terminating, and its successor": {
			rolled(2, one, zero).terminate("old0").failed("old0").create("new0", "n0").ready("new0").gone("old0"), 1, 1},
		"a surge pod that fails next to an available one does not surge": {
			rolled(3, zero, one).create("new0", "n0").failed("new0").create("new1", "n1"), 0, 2},
		"a pod of another owner on the node": {
			func() *story {
				s := rolled(2, one, zero)
				s.create("other", "n0")
				s.log[len(s.log)-1].Object.(*corev1.Pod).OwnerReferences[0].UID = "somebody"
				return s
			}(), 0, 1},
		"a pod with the UID of the set and another kind of owner": {
			func() *story {
				s := rolled(2, one, zero)
				s.create("other", "n0")
				s.log[len(s.log)-1].Object.(*corev1.Pod).OwnerReferences[0].Kind = "ReplicaSet"
				return s
			}(), 0, 1},
		"a new node without a pod has not joined": {
			rolled(2, one, zero).
				add(watch.Added, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n9"}}).
				replace("old0", "new0", "n0"), 1, 1},
		"the pod of a node that is not eligible any more": {
			rolled(3, one, zero).
				add(watch.Modified, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2", Labels: map[string]string{"no": "x"}}}).
				terminate("old2").replace("old0", "new0", "n0"), 1, 1},
		"a node that was deleted": {
			rolled(3, one, zero).
				add(watch.Deleted, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}).
				terminate("old2").replace("old0", "new0", "n0"), 1, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			report := test.story.judge()
			if err := report.Err(); err != nil {
				t.Fatal(err)
			}
			if report.MostUnavailable != test.unavailable || report.MostPodsOnNode != test.pods {
				t.Fatalf("%s, want %d unavailable and %d pods", report.Summary(), test.unavailable, test.pods)
			}
		})
	}
}

// Each invariant is shown able to fail: a good log with one thing changed that a broken controller could have done.
func TestMutants(t *testing.T) {
	onDelete := rolled(2, one, zero)
	onDelete.set.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}
	tests := map[string]struct {
		story *story
		want  []Invariant
		text  string
	}{
		"one delete too many": {
			rolled(3, one, zero).terminate("old0").terminate("old1"), []Invariant{Budget}, "2 nodes are unavailable (n0, n1), at most 1 allowed"},
		"the next delete before the new pod is ready": {
			rolled(3, one, zero).terminate("old0").gone("old0").create("new0", "n0").terminate("old1"), []Invariant{Budget}, "(n0, n1)"},
		"the next delete although another pod is not ready": {
			rolled(3, one, zero).unready("old2").terminate("old0"), []Invariant{Budget}, "(n0, n2)"},
		"a percentage exceeded": {
			rolled(3, half, zero).terminate("old0").terminate("old1").terminate("old2"), []Invariant{Budget}, "3 nodes"},
		"each further one is a violation of its own": {
			rolled(4, one, zero).terminate("old0").terminate("old1").terminate("old2"), []Invariant{Budget, Budget}, "3 nodes"},
		"a delete before the surge pod is ready": {
			rolled(2, zero, one).create("new0", "n0").terminate("old0"), []Invariant{Budget}, "at most 0 allowed"},
		"created next to a terminating pod": {
			rolled(2, one, zero).terminate("old0").create("new0", "n0"), []Invariant{OnePod}, "node n0 has 2 pods (new0, old0)"},
		"created next to a failed pod that was not deleted": {
			rolled(2, one, zero).failed("old0").create("new0", "n0"), []Invariant{OnePod}, "node n0 has 2 pods (new0, old0)"},
		"created next to a succeeded pod that was not deleted": {
			rolled(2, one, zero).succeeded("old0").create("new0", "n0"), []Invariant{OnePod}, "node n0 has 2 pods (new0, old0)"},
		"created twice": {
			rolled(2, one, zero).terminate("old0").gone("old0").create("new0", "n0").create("twin", "n0"), []Invariant{OnePod}, "new0, twin"},
		"three with surge": {
			rolled(2, zero, one).create("new0", "n0").create("twin", "n0"), []Invariant{SurgePods}, "node n0 has 3 pods"},
		"more nodes surging than allowed": {
			rolled(3, zero, one).create("new0", "n0").create("new1", "n1"), []Invariant{Surge}, "2 nodes are surging (n0, n1), at most 1 allowed"},
		"two pods on a node that is not eligible": {
			rolled(3, one, zero).
				add(watch.Modified, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2", Labels: map[string]string{"no": "x"}}}).
				create("twin", "n2"), []Invariant{OnePod}, "node n2 has 2 pods"},
		"minReadySeconds not waited for": {
			func() *story {
				s := rolled(3, one, zero)
				s.set.Spec.MinReadySeconds = 5
				s.putSet()
				s.now = s.now.Add(time.Minute)
				return s.replace("old0", "new0", "n0").terminate("old1")
			}(), []Invariant{Budget}, "(n0, n1)"},
		"OnDelete knows no budget, but one pod a node": {
			onDelete.putSet().terminate("old0").terminate("old1").create("new0", "n0"), []Invariant{OnePod}, "node n0"},
		"two pods pinned to a node and not yet bound": {
			func() *story {
				s := rolled(2, one, zero)
				s.terminate("old0").create("new0", "")
				pod := s.log[len(s.log)-1].Object.(*corev1.Pod)
				pod.Spec.Affinity = pinned("n0")
				return s
			}(), []Invariant{OnePod}, "node n0"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			report := test.story.judge()
			wantInvariants(t, report, test.want...)
			if text := report.Err().Error(); !strings.Contains(text, test.text) || !strings.Contains(text, "events before the first one") {
				t.Fatalf("message lacks %q:\n%s", test.text, text)
			}
			v := report.Violations[0]
			if len(v.OfNode) == 0 || v.OfNode[len(v.OfNode)-1] != v.Event.String() {
				t.Errorf("the last event of the node is not %s: %q", v.Event, v.OfNode)
			}
		})
	}
}

func pinned(node string) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
		}}},
	}}
}

func TestNoBaselineIsAnError(t *testing.T) {
	report := newStory(2, one, zero).create("old0", "n0").ready("old0").judge()
	if err := report.Err(); err == nil || !strings.Contains(err.Error(), "proves nothing") {
		t.Fatalf("error %v", err)
	}
}

// The first list comes in the order of versions: a node whose pod comes first must not pass for all nodes.
func TestBaselineIsNotReachedWithinTheFirstList(t *testing.T) {
	s := newStory(1, one, zero).create("old0", "n0").ready("old0")
	s.add(watch.Added, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	s.create("old1", "n1")
	listed := rules()
	listed.From = uint64(len(s.log))
	if report := Judge(s.log, listed); report.Baseline {
		t.Fatalf("baseline reached: %s", report.Summary())
	}
	s.ready("old1").replace("old0", "new0", "n0")
	if report := Judge(s.log, listed); !report.Baseline || report.LeastAvailable != 1 || report.MostUnavailable != 1 {
		t.Fatalf("%s", report.Summary())
	}
}

func TestReportCountsPods(t *testing.T) {
	s := rolled(2, one, zero)
	from := uint64(len(s.log))
	s.replace("old0", "new0", "n0").change("old1", func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 1}}
	})
	judged := rules()
	judged.From = from
	report := Judge(s.log, judged)
	got := fmt.Sprint(report.Created, report.Deleted, report.Restarted, report.Judged)
	if want := "[new0] [old0] [old1] 5"; got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
}

func TestSortRestoresTheOrderAcrossKinds(t *testing.T) {
	s := rolled(3, one, zero).terminate("old0").gone("old0").create("new0", "n0").ready("new0").terminate("old1")
	var pods, rest []Event
	for _, event := range s.log {
		if _, ok := event.Object.(*corev1.Pod); ok {
			pods = append(pods, event)
		} else {
			rest = append(rest, event)
		}
	}
	shuffled := append(pods, rest...)
	Sort(shuffled)
	if report := Judge(shuffled, rules()); report.Err() != nil || report.Judged != len(s.log) {
		t.Fatalf("%s: %v", report.Summary(), report.Err())
	}
}
