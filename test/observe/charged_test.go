// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"maps"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"

	"everynode.dev/everynode/api/kruise"
)

// failing is a story of a set with one unavailable node at most, whose nodes fail.
func failing(nodes ...string) *story {
	s := newStory(0, intstr.FromInt32(1), intstr.FromInt32(0))
	for _, node := range nodes {
		s.node(node, corev1.ConditionTrue)
	}
	for _, node := range nodes {
		s.create("old-"+node, node).ready("old-" + node)
	}
	s.now = s.now.Add(time.Minute)
	return s.putSet()
}

func (s *story) node(name string, ready corev1.ConditionStatus) *story {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	return s.add(watch.Modified, node)
}

func (s *story) revision(name, hash string, number int64) *story {
	owner := metav1.OwnerReference{Kind: "DaemonSet", UID: s.set.UID, Controller: new(true)}
	return s.add(watch.Modified, &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name), Labels: map[string]string{appsv1.DefaultDaemonSetUniqueLabelKey: hash}, OwnerReferences: []metav1.OwnerReference{owner},
	}, Revision: number})
}

func (s *story) judgeFailing(excused ...string) Report {
	r := rules()
	r.Deaths = s.deaths
	r.Outages, r.Excused = true, map[types.UID]bool{}
	for _, name := range excused {
		r.Excused[types.UID("uid-"+name)] = true
	}
	return Judge(s.log, r)
}

// TestCharge: nodes that fail are not the controller's doing, those that it takes a pod from are.
func TestCharge(t *testing.T) {
	s := failing("a", "b", "c").unready("old-a").unready("old-b").terminate("old-c")
	wantInvariants(t, s.judgeFailing())
	if report := s.judgeFailing(); report.MostUnavailable != 1 || report.Limit != 1 {
		t.Errorf("charged %d of %d nodes", report.MostUnavailable, report.Limit)
	}
	wantInvariants(t, failing("a", "b").terminate("old-a").terminate("old-b").judgeFailing(), Budget)
	wantInvariants(t, failing("a", "b").terminate("old-a").terminate("old-b").judgeFailing("old-b"))
	wantInvariants(t, failing("a", "b").replace("old-a", "new-a", "a").terminate("old-b").judgeFailing())
	// A node that fails after its pod was taken stays charged, and one that had failed before is not.
	wantInvariants(t, failing("a", "b").terminate("old-a").node("a", corev1.ConditionUnknown).terminate("old-b").judgeFailing(), Budget)
	wantInvariants(t, failing("a", "b").node("a", corev1.ConditionUnknown).terminate("old-a").terminate("old-b").judgeFailing())
	// What has become available in the same moment may have been taken for unavailable.
	wantInvariants(t, failing("a", "b").terminate("old-a").unready("old-b").ready("old-b").terminate("old-b").judgeFailing())
	// Nothing is gained by taking a pod that is not available.
	wantInvariants(t, failing("a", "b").unready("old-a").terminate("old-a").terminate("old-b").judgeFailing())
}

// failingSurge is a story of a set that surges and may have no unavailable node.
func failingSurge(nodes ...string) *story {
	s := failing(nodes...)
	s.set.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxUnavailable: new(intstr.FromInt32(0)), MaxSurge: new(intstr.FromInt32(1))}
	return s.putSet()
}

// paired is one with two available pods on node a.
func paired() *story {
	return failingSurge("a", "b").create("new-a", "a").ready("new-a").wait(time.Minute)
}

// dies is that the API server ends.
func (s *story) dies() *story {
	s.deaths = append(s.deaths, s.now)
	return s
}

func (s *story) wait(d time.Duration) *story {
	s.now = s.now.Add(d)
	return s
}

// TestRobbed: the controller need not know yet what another user has just taken from a node. What it takes itself it knows.
func TestRobbed(t *testing.T) {
	losses := map[string]struct {
		lose    func(*story) *story
		excused []string
	}{
		"a user deletes it":         {func(s *story) *story { return s.terminate("new-a") }, []string{"new-a"}},
		"a user removes it at once": {func(s *story) *story { return s.gone("new-a") }, []string{"new-a"}},
		"it is not ready any more":  {func(s *story) *story { return s.unready("new-a") }, nil},
		"it fails":                  {func(s *story) *story { return s.failed("new-a") }, nil},
	}
	for name, c := range losses {
		t.Run(name, func(t *testing.T) {
			wantInvariants(t, c.lose(paired()).terminate("old-a").judgeFailing(c.excused...))
			wantInvariants(t, c.lose(paired()).wait(certain).terminate("old-a").judgeFailing(c.excused...), Budget)
		})
	}
	wantInvariants(t, paired().terminate("old-a").judgeFailing())
	// Both pods of a pair are the controller's doing, also when one was not in use any more.
	wantInvariants(t, paired().terminate("new-a").terminate("old-a").judgeFailing(), Budget)
	wantInvariants(t, paired().gone("new-a").terminate("old-a").judgeFailing(), Budget)
	wantInvariants(t, paired().unready("new-a").terminate("new-a").terminate("old-a").judgeFailing(), Budget)
	// What another node has lost excuses nothing, nor does a pod that was not in use.
	wantInvariants(t, failingSurge("a", "b").unready("old-b").terminate("old-a").judgeFailing(), Budget)
	wantInvariants(t, failingSurge("a", "b").create("new-a", "a").unready("new-a").terminate("old-a").judgeFailing(), Budget)
}

// TestBlind: while the API server is down, and for some seconds after that, the controller may not know what a node has lost or got back. It knows what was so before.
func TestBlind(t *testing.T) {
	lost := func(s *story) *story { return s.unready("new-a").wait(10 * time.Second).terminate("old-a") }
	wantInvariants(t, lost(paired().dies()).judgeFailing())
	wantInvariants(t, lost(paired()).judgeFailing(), Budget)
	wantInvariants(t, lost(paired().dies().wait(unseen)).judgeFailing(), Budget)
	wantInvariants(t, lost(paired()).dies().judgeFailing(), Budget)
	wantInvariants(t, paired().unready("new-a").wait(time.Minute).dies().wait(5*time.Second).terminate("old-a").judgeFailing(), Budget)
	wantInvariants(t, paired().dies().terminate("old-a").judgeFailing())
	// It may not make two nodes unavailable in that time either.
	wantInvariants(t, failing("a", "b").dies().terminate("old-a").terminate("old-b").judgeFailing(), Budget)
	back := func(s *story) *story {
		return s.unready("old-b").create("new-a", "a").ready("old-b").wait(10*time.Second).create("new-b", "b")
	}
	wantInvariants(t, back(failingSurge("a", "b").dies()).judgeFailing())
	wantInvariants(t, back(failingSurge("a", "b")).judgeFailing(), Surge)
}

// TestDoubled: next to a pod that is not available, a new one needs no surge, also when that pod becomes available later, or has just done so.
func TestDoubled(t *testing.T) {
	returned := func() *story {
		return failingSurge("a", "b", "c").unready("old-a").wait(time.Minute).create("new-a", "a").ready("old-a")
	}
	wantInvariants(t, returned().create("new-b", "b").judgeFailing())
	wantInvariants(t, returned().wait(time.Minute).create("new-b", "b").judgeFailing())
	wantInvariants(t, returned().create("new-b", "b").create("new-c", "c").judgeFailing(), Surge)
	back := func() *story { return failingSurge("a", "b").create("new-a", "a").unready("old-b").ready("old-b") }
	wantInvariants(t, back().wait(certain-time.Second).create("new-b", "b").judgeFailing())
	wantInvariants(t, back().wait(certain).create("new-b", "b").judgeFailing(), Surge)
	// One that has ended counts no more, and where nodes do not fail, each one counts.
	wantInvariants(t, failingSurge("a", "b").create("new-a", "a").ready("new-a").create("new-b", "b").judgeFailing())
	wantInvariants(t, returned().create("new-b", "b").judge(), Budget, Surge)
}

// TestShrunk: the controller need not know yet that nodes have just gone of which its budget is a percentage.
func TestShrunk(t *testing.T) {
	half := intstr.FromString("50%")
	shrunk := func(rolling appsv1.RollingUpdateDaemonSet) *story {
		s := failing("a", "b", "c", "d")
		s.set.Spec.UpdateStrategy.RollingUpdate = &rolling
		s.putSet()
		for _, name := range []string{"c", "d"} {
			s.add(watch.Deleted, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}})
		}
		return s
	}
	taking := func() *story { return shrunk(appsv1.RollingUpdateDaemonSet{MaxUnavailable: &half}) }
	wantInvariants(t, taking().terminate("old-a").terminate("old-b").judgeFailing())
	wantInvariants(t, taking().wait(certain).terminate("old-a").terminate("old-b").judgeFailing(), Budget)
	surging := func() *story {
		return shrunk(appsv1.RollingUpdateDaemonSet{MaxUnavailable: new(intstr.FromInt32(0)), MaxSurge: &half})
	}
	wantInvariants(t, surging().create("new-a", "a").create("new-b", "b").judgeFailing())
	wantInvariants(t, surging().wait(certain).create("new-a", "a").create("new-b", "b").judgeFailing(), Surge)
	// Nor is anybody excused where nodes do not fail.
	wantInvariants(t, surging().create("new-a", "a").create("new-b", "b").judge(), Surge)
}

// TestMarked: what the controller changes in place is charged at once, and until it is put into use again.
func TestMarked(t *testing.T) {
	mark := func(s *story, name string, gate corev1.ConditionStatus) *story {
		return s.change(name, func(pod *corev1.Pod) {
			pod.Status.Conditions = append(pod.Status.Conditions[:1], corev1.PodCondition{Type: kruise.InPlaceUpdateReady, Status: gate})
		})
	}
	s := mark(failing("a", "b"), "old-a", corev1.ConditionFalse)
	wantInvariants(t, s.judgeFailing())
	wantInvariants(t, mark(s, "old-b", corev1.ConditionFalse).judgeFailing(), Budget)
	s = mark(mark(failing("a", "b"), "old-a", corev1.ConditionFalse), "old-a", corev1.ConditionTrue)
	wantInvariants(t, mark(s, "old-b", corev1.ConditionFalse).judgeFailing())
}

// TestUndone: a pod that surges, and is not wanted any more, makes room.
func TestUndone(t *testing.T) {
	s := failingSurge("a", "b")
	of := func(s *story, name, node, hash string) *story {
		s.create(name, node)
		s.log[len(s.log)-1].Object.SetLabels(map[string]string{appsv1.DefaultDaemonSetUniqueLabelKey: hash})
		return s
	}
	of(s.revision("r1", "h1", 1), "new-a", "a", "h1")
	wantInvariants(t, s.judgeFailing())
	fork := &story{log: slices.Clone(s.log), now: s.now, pods: maps.Clone(s.pods), set: s.set}
	wantInvariants(t, of(s, "new-b", "b", "h1").judgeFailing(), Surge)
	wantInvariants(t, of(fork.revision("r2", "h2", 2), "new-b", "b", "h2").judgeFailing())
}

// TestNewest: a pod of the newest revision stays.
func TestNewest(t *testing.T) {
	begin := func() *story {
		s := failing("a", "b").revision("r1", "h1", 1).revision("r2", "h2", 2)
		return s.change("old-a", func(pod *corev1.Pod) {
			pod.Labels = map[string]string{appsv1.DefaultDaemonSetUniqueLabelKey: "h1"}
		})
	}
	wantInvariants(t, begin().terminate("old-a").judgeFailing())
	wantInvariants(t, begin().revision("r1", "h1", 3).terminate("old-a").judgeFailing(), Kept)
	wantInvariants(t, begin().revision("r1", "h1", 3).terminate("old-a").judgeFailing("old-a"))
	wantInvariants(t, begin().revision("r1", "h1", 3).failed("old-a").terminate("old-a").judgeFailing())
	wantInvariants(t, begin().revision("r1", "h1", 3).create("twin", "a").terminate("old-a").judgeFailing(), OnePod)
}
