// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// mixed is a story whose nodes all count differently: a has an updated pod that is available, b an old one that is not ready for long enough, and a
// new one beside it, c an updated one that is not ready, d one that must not be there, e none.
func mixed() *story {
	s := newStory(0, zero, one)
	s.set.Spec.MinReadySeconds = 30
	for _, name := range []string{"a", "b", "c", "e"} {
		s.node(name, corev1.ConditionTrue)
	}
	s.add(watch.Added, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "d", UID: "d", Labels: map[string]string{"no": "yes"}}})
	s.revision("r1", "h1", 1).revision("r2", "h2", 2)
	of := func(name, node, hash string) *story {
		s.create(name, node)
		return s.change(name, func(pod *corev1.Pod) {
			pod.CreationTimestamp = metav1.NewTime(s.now)
			pod.Labels = map[string]string{appsv1.DefaultDaemonSetUniqueLabelKey: hash}
		})
	}
	of("new-a", "a", "h2").ready("new-a")
	of("new-c", "c", "h2").unready("new-c")
	of("old-d", "d", "h1").ready("old-d")
	s.now = s.now.Add(time.Minute)
	of("old-b", "b", "h1").ready("old-b")
	of("new-b", "b", "h2")
	s.set.Status = appsv1.DaemonSetStatus{
		ObservedGeneration: 1, DesiredNumberScheduled: 4, CurrentNumberScheduled: 3, NumberMisscheduled: 1, NumberReady: 2, UpdatedNumberScheduled: 2,
		NumberAvailable: 1, NumberUnavailable: 3,
	}
	return s.putSet()
}

// rest judges a story that has come to rest.
func (s *story) rest() Report {
	r := rules()
	r.Outages, r.Rests = true, []Rest{{Version: uint64(len(s.log)), At: s.now}}
	return Judge(s.log, r)
}

// TestStatus: each number of a status is counted.
func TestStatus(t *testing.T) {
	report := mixed().rest()
	wantInvariants(t, report)
	if report.Rests != 1 {
		t.Errorf("%d statuses were counted", report.Rests)
	}
	for name, change := range map[string]func(status *appsv1.DaemonSetStatus){
		"observedGeneration is 0 at rest, and it should be 1":     func(s *appsv1.DaemonSetStatus) { s.ObservedGeneration-- },
		"desiredNumberScheduled is 5 at rest, and it should be 4": func(s *appsv1.DaemonSetStatus) { s.DesiredNumberScheduled++ },
		"currentNumberScheduled is 4 at rest, and it should be 3": func(s *appsv1.DaemonSetStatus) { s.CurrentNumberScheduled++ },
		"numberMisscheduled is 0 at rest, and it should be 1":     func(s *appsv1.DaemonSetStatus) { s.NumberMisscheduled-- },
		"numberReady is 3 at rest, and it should be 2":            func(s *appsv1.DaemonSetStatus) { s.NumberReady++ },
		"updatedNumberScheduled is 3 at rest, and it should be 2": func(s *appsv1.DaemonSetStatus) { s.UpdatedNumberScheduled++ },
		"numberAvailable is 2 at rest, and it should be 1":        func(s *appsv1.DaemonSetStatus) { s.NumberAvailable++ },
		"numberUnavailable is 2 at rest, and it should be 3":      func(s *appsv1.DaemonSetStatus) { s.NumberUnavailable-- },
	} {
		s := mixed()
		change(&s.set.Status)
		report := s.putSet().rest()
		if wantInvariants(t, report, Status); !strings.Contains(report.Violations[0].Detail, name) {
			t.Errorf("%q, want %q", report.Violations[0].Detail, name)
		}
	}
}

// TestStatusIsOld: what has changed since the status was written is told, at rest and not before.
func TestStatusIsOld(t *testing.T) {
	wantInvariants(t, mixed().ready("new-c").rest(), Status)
	wantInvariants(t, mixed().gone("new-b").rest())
	wantInvariants(t, mixed().gone("old-d").rest(), Status)
	wantInvariants(t, mixed().node("f", corev1.ConditionTrue).rest(), Status, Status) // desired and unavailable
	wantInvariants(t, mixed().revision("r1", "h1", 3).rest(), Status)
	wantInvariants(t, mixed().terminate("old-b").rest())
	s := mixed()
	r := rules()
	r.Outages, r.Rests = true, []Rest{{Version: uint64(len(s.log)), At: s.now}}
	wantInvariants(t, Judge(s.ready("new-c").log, r))
	r.Rests = append(r.Rests, Rest{Version: uint64(len(s.log)), At: s.now})
	wantInvariants(t, Judge(s.log, r), Status)
	r.Rests = []Rest{{Version: uint64(len(s.log)), At: s.now.Add(time.Hour)}} // b and c are ready for long enough by then
	wantInvariants(t, Judge(s.log, r), Status, Status, Status)
}
