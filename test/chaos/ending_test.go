// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"

	"everynode.dev/everynode/api/kruise/pub"
	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/test/observe"
)

// ending is what was left of a set when its log ended, and what could have come after that.
type ending struct {
	t       *testing.T
	log     []observe.Event
	rules   observe.Rules
	version uint64
	at      time.Time
}

// endOf is the end of a log. What is there then comes as if it had been listed, pods last.
func endOf(t *testing.T, log []observe.Event, rules observe.Rules) *ending {
	t.Helper()
	newest := map[types.UID]int{}
	for i := range log {
		newest[log[i].Object.GetUID()] = i
	}
	var pods, others []observe.Event
	for i, event := range log {
		if newest[event.Object.GetUID()] != i || event.Type == watch.Deleted {
			continue
		}
		if _, isPod := event.Object.(*corev1.Pod); isPod {
			pods = append(pods, event)
		} else {
			others = append(others, event)
		}
	}
	if len(pods) == 0 {
		t.Fatal("there is no pod at the end of the log")
	}
	last := log[len(log)-1]
	rules.From, rules.Rests, rules.Received, rules.Deaths = last.Version, nil, nil, nil // what comes later, managers know at once
	return &ending{t: t, log: slices.Concat(others, pods), rules: rules, version: last.Version, at: last.At}
}

// then adds what comes a while later, when everybody knows what was before.
func (e *ending) then(kind watch.EventType, object metav1.Object) {
	const later = 3 * time.Second
	e.version++
	e.at = e.at.Add(later)
	if kind == watch.Added {
		object.SetCreationTimestamp(metav1.NewTime(e.at))
	}
	e.log = append(e.log, observe.Event{Type: kind, Object: object, Version: e.version, At: e.at})
}

// change changes a pod, and returns it.
func (e *ending) change(pod *corev1.Pod, edit func(pod *corev1.Pod)) *corev1.Pod {
	pod = pod.DeepCopy()
	edit(pod)
	e.then(watch.Modified, pod)
	return pod
}

// pods are those that live, and that no user has deleted.
func (e *ending) pods() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, event := range e.log {
		if pod, isPod := event.Object.(*corev1.Pod); isPod && pod.DeletionTimestamp == nil && !e.rules.Excused[pod.UID] {
			pods = append(pods, pod)
		}
	}
	return pods
}

// pod is one of them.
func (e *ending) pod() *corev1.Pod {
	e.t.Helper()
	pods := e.pods()
	if len(pods) == 0 {
		e.t.Fatal("no pod lives at the end of the log")
	}
	return pods[0]
}

// mutant is this end with something after it that must be detected.
func (e *ending) mutant(what string, by observe.Invariant, text string, do func(e *ending)) mutant {
	after := *e
	after.log = slices.Clone(e.log)
	do(&after)
	return mutant{what: what, log: after.log, rules: after.rules, by: by, text: text}
}

// toldNodes is on how many nodes the set of told runs.
const toldNodes = 3

// told is a log by hand, of a set that has run one pod on each of some nodes, all the time.
func told(t *testing.T, set metav1.Object) ([]observe.Event, observe.Rules) {
	t.Helper()
	const nodes, hash = toldNodes, "first"
	var log []observe.Event
	tell := func(kind watch.EventType, object metav1.Object) {
		version := uint64(len(log) + 1)
		log = append(log, observe.Event{Type: kind, Object: object, Version: version, At: time.Unix(1_000_000+int64(version), 0)})
	}
	owner := []metav1.OwnerReference{{Kind: "DaemonSet", UID: set.GetUID(), Name: set.GetName(), Controller: new(true)}}
	labels := map[string]string{appsv1.DefaultDaemonSetUniqueLabelKey: hash}
	tell(watch.Added, &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{UID: "revision", OwnerReferences: owner, Labels: labels}, Revision: 1})
	tell(watch.Added, set)
	for i := range nodes {
		tell(watch.Added, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i), UID: types.UID(fmt.Sprint("n", i))}})
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i), UID: types.UID(fmt.Sprint("p", i)), OwnerReferences: owner, Labels: labels}}
		pod.Spec.NodeName, pod.Spec.Containers = fmt.Sprint("n", i), []corev1.Container{{Name: "daemon", Image: imageName(1)}}
		tell(watch.Added, pod)
		pod = pod.DeepCopy()
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		tell(watch.Modified, pod)
	}
	return log, observe.Rules{
		Namespace: set.GetNamespace(), Name: set.GetName(), Outages: true, Eligible: func(*corev1.Node, *appsv1.DaemonSet) bool { return true },
	}
}

// TestMutants: what judgeLogMutants makes of a log in which all is well is noticed, and the log itself is not.
func TestMutants(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "set", UID: "set", Generation: 1}
	native := &appsv1.DaemonSet{ObjectMeta: meta, Status: restingStatus()}
	native.Spec.Template.Spec.Containers = []corev1.Container{{Name: "daemon", Image: imageName(1)}}
	native.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxUnavailable: new(intstr.FromInt32(1))}
	surging := native.DeepCopy()
	surging.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxUnavailable: new(intstr.FromInt32(0)), MaxSurge: new(intstr.FromInt32(1))}
	set := &v1beta1.DaemonSet{ObjectMeta: meta}
	set.Spec.UpdateStrategy.RollingUpdate = &v1beta1.RollingUpdateDaemonSet{MaxUnavailable: new(intstr.FromInt32(1))}
	set.Spec.Lifecycle = &pub.Lifecycle{PreDelete: &pub.LifecycleHook{LabelsHandler: map[string]string{holdLabel: held}}}
	set.Status = advancedStatus()
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "daemon", Image: imageName(1)}}}}
	var err error
	if set.Spec.Template.Raw, err = json.Marshal(template); err != nil {
		t.Fatal(err)
	}
	advanced, err := observe.NewAdvanced(set)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		member member
		set    metav1.Object
		many   int // mutants there are
	}{
		{member{name: "plain"}, native, 10}, {member{name: "surging"}, surging, 11}, {member{name: "limited", advanced: true, image: 1, hooked: true}, advanced, 17},
	} {
		log, rules := told(t, c.set)
		rules.Deaths = []time.Time{log[len(log)-1].At} // the API server dies just before the log ends
		if seen := observe.Judge(log, rules); len(seen.Violations) > 0 {
			t.Errorf("set %s: %+v", c.member.name, seen.Violations)
		}
		end := endOf(t, log, rules)
		end.checkRest()
		all := mutants(&c.member, end, log, rules)
		if c.member.advanced {
			all = append(all, advancedMutants(&c.member, set, end)...)
		}
		if len(all) != c.many {
			t.Errorf("set %s: %d mutants, want %d", c.member.name, len(all), c.many)
		}
		for i := range all {
			if !all[i].noticed() {
				t.Errorf("set %s, %s: that is not detected", c.member.name, all[i].what)
			}
		}
	}
}
