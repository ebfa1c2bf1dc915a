// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
)

// tale is a story about an Advanced DaemonSet. Its revisions are called like its templates.
type tale struct {
	*story
	t        *testing.T
	advanced *v1beta1.DaemonSet
	excused  map[types.UID]bool
}

// newTale begins with one ready pod of revision a on each of the nodes n0, n1 and so on, and then has template b.
func newTale(t *testing.T, nodes int, edit func(rolling *v1beta1.RollingUpdateDaemonSet)) *tale {
	s := &tale{story: newStory(0, one, zero), t: t, excused: map[types.UID]bool{}}
	s.log = nil
	s.advanced = &v1beta1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "ds", UID: s.set.UID}}
	s.advanced.Spec.UpdateStrategy.RollingUpdate = &v1beta1.RollingUpdateDaemonSet{MaxUnavailable: new(intstr.FromString("100%"))}
	edit(s.advanced.Spec.UpdateStrategy.RollingUpdate)
	s.template("a").observed("a")
	for i := range nodes {
		s.node(i, nil).pod(fmt.Sprintf("a%d", i), i, "a")
	}
	return s.template("b")
}

func plain(*v1beta1.RollingUpdateDaemonSet) {}

func (s *tale) node(i int, labels map[string]string) *tale {
	s.add(watch.Modified, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i), Labels: labels}})
	return s
}

func (s *tale) write() *tale {
	set, err := NewAdvanced(s.advanced.DeepCopy())
	if err != nil {
		s.t.Fatal(err)
	}
	s.add(watch.Modified, set)
	return s
}

// edit changes the set as a user does.
func (s *tale) edit(edit func(spec *v1beta1.DaemonSetSpec)) *tale {
	edit(&s.advanced.Spec)
	s.advanced.Generation++
	return s.write()
}

func (s *tale) template(name string) *tale {
	return s.edit(func(spec *v1beta1.DaemonSetSpec) {
		spec.Template = runtime.RawExtension{Raw: fmt.Appendf(nil, `{"metadata":{"annotations":{"is":%q}}}`, name)}
	})
}

// observed is the controller's status for the newest generation.
func (s *tale) observed(revision string) *tale {
	s.advanced.Status.ObservedGeneration, s.advanced.Status.UpdateRevision = s.advanced.Generation, revision
	return s.write()
}

// pod makes a ready pod of a revision.
func (s *tale) pod(name string, node int, revision string) *tale {
	s.create(name, fmt.Sprintf("n%d", node))
	s.pods[name].Labels = map[string]string{appsv1.DefaultDaemonSetUniqueLabelKey: revision}
	s.log[len(s.log)-1].Object = s.pods[name].DeepCopy()
	s.log[len(s.log)-1].Object.SetResourceVersion(fmt.Sprint(len(s.log)))
	s.ready(name)
	return s
}

// recreate replaces the pod of revision a on the node by one of revision b.
func (s *tale) recreate(node int) *tale {
	old := fmt.Sprintf("a%d", node)
	s.terminate(old).gone(old)
	return s.pod(fmt.Sprintf("b%d", node), node, "b")
}

// mark and arrive are the two ends of a change in place, patch is what lies between.
func (s *tale) mark(name string) *tale {
	s.unready(name).change(name, func(pod *corev1.Pod) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kruise.InPlaceUpdateReady, Status: corev1.ConditionFalse})
	})
	return s
}

func (s *tale) patch(name, image string) *tale {
	s.change(name, func(pod *corev1.Pod) {
		pod.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] = "b"
		pod.Spec.Containers = []corev1.Container{{Name: "c", Image: image}}
	})
	return s
}

func (s *tale) running(name, image string) *tale {
	s.change(name, func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", Image: image}}
	})
	return s
}

func (s *tale) prepare(name string) *tale {
	s.change(name, func(pod *corev1.Pod) { pod.Labels[kruise.LifecycleState] = kruise.LifecyclePreparingDelete })
	return s
}

func (s *tale) excuse(name string) *tale { s.excused[s.pods[name].UID] = true; return s }

func (s *tale) judge() Report {
	r := rules()
	r.Excused = s.excused
	return Judge(s.log, r)
}

func (s *tale) remove(name string) *tale { s.terminate(name).gone(name); return s }

func paused(rolling *v1beta1.RollingUpdateDaemonSet) { rolling.Paused = new(true) }

func partition(value string) func(rolling *v1beta1.RollingUpdateDaemonSet) {
	return func(rolling *v1beta1.RollingUpdateDaemonSet) { rolling.Partition = new(intstr.Parse(value)) }
}

func chosen(rolling *v1beta1.RollingUpdateDaemonSet) {
	rolling.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"canary": "yes"}}
}

func onlyOne(rolling *v1beta1.RollingUpdateDaemonSet) { rolling.MaxUnavailable = new(one) }

func surging(rolling *v1beta1.RollingUpdateDaemonSet) {
	rolling.MaxUnavailable, rolling.MaxSurge = nil, new(one)
}

func progressive(spec *v1beta1.DaemonSetSpec) {
	spec.ScaleStrategy = &v1beta1.DaemonSetScaleStrategy{PartitionedScaling: true}
}

func TestGoodTales(t *testing.T) {
	canary := map[string]string{"canary": "yes"}
	tests := map[string]*tale{
		"a roll":                             newTale(t, 2, plain).observed("b").recreate(0).recreate(1),
		"before the status has the revision": newTale(t, 2, plain).recreate(0).observed("b").recreate(1),
		"a surge":                            newTale(t, 2, surging).observed("b").pod("b0", 0, "b").remove("a0").pod("b1", 1, "b").remove("a1"),
		"the chosen node":                    newTale(t, 2, chosen).node(1, canary).observed("b").recreate(1),
		"as many as the partition allows":    newTale(t, 3, partition("1")).observed("b").recreate(0).recreate(1),
		"half of three, rounded down, are kept": newTale(t, 3, partition("50%")).
			observed("b").recreate(0).recreate(1),
		"what was decided before the pause was seen": newTale(t, 2, plain).observed("b").
			edit(func(spec *v1beta1.DaemonSetSpec) { paused(spec.UpdateStrategy.RollingUpdate) }).recreate(0),
		"what had begun before the pause": func() *tale {
			s := newTale(t, 2, plain).observed("b")
			s.remove("a0")
			return s.edit(func(spec *v1beta1.DaemonSetSpec) { paused(spec.UpdateStrategy.RollingUpdate) }).observed("b").pod("b0", 0, "b")
		}(),
		"a new node while paused": newTale(t, 1, paused).observed("b").node(1, nil).pod("b1", 1, "b"),
		"a held node whose pod somebody deleted": newTale(t, 2, paused).observed("b").
			excuse("a0").remove("a0").pod("again", 0, "a"),
		"what had begun before somebody deleted the pod, and before the pause": newTale(t, 2, plain).observed("b").prepare("a0").excuse("a0").remove("a0").
			edit(func(spec *v1beta1.DaemonSetSpec) { paused(spec.UpdateStrategy.RollingUpdate) }).observed("b").pod("b0", 0, "b"),
		"a held node whose pod has lost its hash to a webhook": newTale(t, 2, paused).observed("b").
			excuse("a0").remove("a0").pod("bare", 0, "").excuse("bare").remove("bare").pod("b0", 0, "b"),
		"a failed pod on a held node": func() *tale {
			s := newTale(t, 2, paused).observed("b")
			s.failed("a0")
			return s.remove("a0").pod("again", 0, "a")
		}(),
		"a change in place": newTale(t, 1, plain).observed("b").mark("a0").patch("a0", "new").running("a0", "new").
			open("a0"),
		"a change that is called off": newTale(t, 2, onlyOne).observed("b").mark("a0").template("a").observed("a").open("a0"),
		"a pod that waits for its hook, and goes": newTale(t, 2, onlyOne).observed("b").prepare("a0").remove("a0").
			pod("b0", 0, "b").prepare("a1"),
		"progressive creation": newTale(t, 1, partition("1")).edit(progressive).observed("b").node(1, nil).pod("b1", 1, "b"),
		"back to the first template": newTale(t, 2, plain).observed("b").recreate(0).template("a").observed("a").
			remove("b0").pod("again", 0, "a"),
		"after a version that was invalid": func() *tale {
			s := newTale(t, 2, plain)
			s.advanced.Status.Conditions = []appsv1.DaemonSetCondition{{Type: "Degraded", Reason: "InvalidSpec"}}
			s.observed("a")
			s.advanced.Status.Conditions = nil
			return s.edit(func(*v1beta1.DaemonSetSpec) {}).recreate(0).observed("b")
		}(),
		"after the set is gone": func() *tale {
			s := newTale(t, 2, paused).observed("b")
			set, err := NewAdvanced(s.advanced)
			if err != nil {
				t.Fatal(err)
			}
			s.add(watch.Deleted, set)
			return s.remove("a0").remove("a1")
		}(),
	}
	for name, s := range tests {
		t.Run(name, func(t *testing.T) {
			if err := s.judge().Err(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// open makes the pod ready, with its gate open.
func (s *tale) open(name string) *tale { s.ready(name); return s }

// Each invariant of Advanced DaemonSets is shown able to fail.
func TestTalesOfMutants(t *testing.T) {
	tests := map[string]struct {
		tale *tale
		want []Invariant
		text string
	}{
		"updated while paused": {
			newTale(t, 2, paused).observed("b").recreate(0), []Invariant{Limits}, "although the update is paused"},
		"updated in place while paused": {
			newTale(t, 2, paused).observed("b").mark("a0"), []Invariant{Limits}, "although the update is paused"},
		"prepared while paused": {
			newTale(t, 2, paused).observed("b").prepare("a0"), []Invariant{Limits}, "although the update is paused"},
		"prepared while paused, and then deleted by somebody else": {
			newTale(t, 2, paused).observed("b").prepare("a0").excuse("a0").remove("a0"), []Invariant{Limits}, "although the update is paused"},
		"surge begun while paused": {
			newTale(t, 2, func(r *v1beta1.RollingUpdateDaemonSet) { surging(r); paused(r) }).observed("b").pod("b0", 0, "b"),
			[]Invariant{Limits}, "pod b0 was created on node n0 although the update is paused"},
		"updated with OnDelete": {
			newTale(t, 2, plain).edit(func(spec *v1beta1.DaemonSetSpec) {
				spec.UpdateStrategy.Type = v1beta1.OnDeleteDaemonSetStrategyType
			}).observed("b").recreate(0), []Invariant{Limits}, "OnDelete"},
		"a node that was not chosen": {
			newTale(t, 2, chosen).observed("b").recreate(0), []Invariant{Limits}, "the selector chooses other nodes"},
		"one more than the partition allows": {
			newTale(t, 3, partition("2")).observed("b").recreate(0).recreate(1), []Invariant{Limits}, "allows 1 of 3 nodes to be updated, and this is number 2"},
		"a percentage rounded up": {
			newTale(t, 3, partition("50%")).observed("b").recreate(0).recreate(1).recreate(2), []Invariant{Limits}, "allows 2 of 3"},
		"a partition of all": {
			newTale(t, 2, partition("5")).observed("b").recreate(0), []Invariant{Limits}, "allows 0 of 2"},
		"a held node that gets the newest revision after its pod was deleted": {
			newTale(t, 2, paused).observed("b").excuse("a0").remove("a0").pod("b0", 0, "b"), []Invariant{Limits}, "pod b0 was created on node n0"},
		"more pods than progressive creation allows": {
			newTale(t, 1, partition("2")).edit(progressive).observed("b").node(1, nil).pod("b1", 1, "b"), []Invariant{Limits}, "allows 0 of 2"},
		"a pod that is up to date": {
			newTale(t, 2, plain).observed("b").recreate(0).remove("b0"), []Invariant{Kept}, "pod b0 on node n0 is up to date"},
		"a pod that is up to date is prepared": {
			newTale(t, 2, plain).observed("b").recreate(0).prepare("b0"), []Invariant{Kept}, "pod b0 on node n0 is up to date"},
		"nothing was changed at all": {
			newTale(t, 2, plain).template("a").observed("a").remove("a0"), []Invariant{Kept}, "pod a0"},
		"changed while in use": {
			newTale(t, 1, plain).observed("b").patch("a0", "new"), []Invariant{InPlace}, "changed while it was in use"},
		"put into use too early": {
			newTale(t, 1, plain).observed("b").running("a0", "old").mark("a0").patch("a0", "new").open("a0"), []Invariant{InPlace}, "runs old instead of new"},
		"the budget ignored by a change in place": {
			newTale(t, 2, onlyOne).observed("b").mark("a0").mark("a1"), []Invariant{Budget}, "2 nodes are unavailable"},
		"the budget ignored by a pod that waits": {
			newTale(t, 2, onlyOne).observed("b").prepare("a0").prepare("a1"), []Invariant{Budget}, "2 nodes are unavailable"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			report := test.tale.judge()
			wantInvariants(t, report, test.want...)
			if text := report.Err().Error(); !strings.Contains(text, test.text) {
				t.Fatalf("message lacks %q:\n%s", test.text, text)
			}
		})
	}
}

// TestReturned: the controller need not know yet that a node has just come back whose pod is up to date, so that a percentage of fewer nodes counts.
func TestReturned(t *testing.T) {
	back := func() *tale {
		s := newTale(t, 3, partition("34%")).observed("b")
		return s.recreate(2).node(2, map[string]string{"no": "x"}).recreate(0).node(2, nil)
	}
	judge := func(s *tale, outages bool) Report {
		r := rules()
		r.Outages = outages
		return Judge(s.log, r)
	}
	wantInvariants(t, judge(back().recreate(1), true))
	wantInvariants(t, judge(back().recreate(1), false), Limits)
	late := back()
	late.wait(certain)
	wantInvariants(t, judge(late.recreate(1), true), Limits)
}
