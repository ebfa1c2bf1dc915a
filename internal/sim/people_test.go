// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// appLabel is what the set selects its pods by.
	appLabel = "app"
	// othersFinalizer is a finalizer of a controller that is not ours.
	othersFinalizer = "example.com/other"
)

// peopleOps: people take the label from a pod that the set selects it by, and give it back; they put finalizers on pods and on the set.
func (s *sim) peopleOps(ops []op) []op {
	for _, p := range s.w.pods() {
		if isPeers(p.Name) {
			continue
		}
		change := func(text string, weight int, do func(*corev1.Pod)) {
			ops = append(ops, op{words(text, p.UID), weight, func() { s.w.changePod(p, do) }})
		}
		switch {
		case selected(p) && live(p):
			change("a user takes the label from %s", 1, func(p *corev1.Pod) { delete(p.Labels, appLabel) })
		case !selected(p):
			change("a user gives %s its label back", 2, func(p *corev1.Pod) { metav1.SetMetaDataLabel(&p.ObjectMeta, appLabel, "x") })
		}
		switch {
		case len(p.Finalizers) > 0:
			ops = append(ops, op{words("the finalizer of %s is taken away", p.UID), 2, func() { s.unfinalize(p) }})
		case live(p):
			change("a user puts a finalizer on %s", 1, func(p *corev1.Pod) { p.Finalizers = []string{othersFinalizer} })
		}
	}
	if set := s.w.set(); set != nil && set.GetDeletionTimestamp() == nil {
		ops = append(ops, op{"a user deletes the set, which has a finalizer", 1, func() {
			set, at := set.DeepCopy(), metav1.NewTime(s.w.now)
			set.SetFinalizers([]string{othersFinalizer})
			set.SetDeletionTimestamp(&at)
			set.SetGeneration(set.GetGeneration() + 1)
			s.w.put(ofSets, set)
		}})
	} else if set != nil {
		ops = append(ops, op{"the finalizer of the set is taken away", 4, func() { s.w.remove(ofSets, setName) }})
	}
	return ops
}

// selected is whether the set's selector matches a pod.
func selected(p *corev1.Pod) bool { return p.Labels[appLabel] == "x" }

// unfinalize takes the finalizers from a pod; one that has ended, and is being deleted, goes with them.
func (s *sim) unfinalize(p *corev1.Pod) {
	s.w.changePod(p, func(p *corev1.Pod) { p.Finalizers = nil })
	if p.DeletionTimestamp != nil && ended(p) {
		s.w.remove(ofPods, p.Name)
	}
}

// pacifyPeople takes all finalizers away.
func (s *sim) pacifyPeople() {
	for _, p := range s.w.pods() {
		if len(p.Finalizers) > 0 {
			s.unfinalize(p)
		}
	}
	if set := s.w.set(); set != nil && set.GetDeletionTimestamp() != nil {
		s.w.remove(ofSets, setName)
	}
}

// limitOps: a quota allows so many pods in the namespace, and a LimitRange gives resources to new pods.
func (s *sim) limitOps(ops []op) []op {
	if s.w.quota > 0 {
		ops = append(ops, op{"the quota of pods is gone", 2, func() { s.w.quota = 0 }})
	} else {
		for _, n := range []int{max(1, s.cfg.nodes-1), s.cfg.nodes + 1} {
			ops = append(ops, op{words("a quota allows %d pods", n), 1, func() { s.w.quota = n }})
		}
	}
	text := map[bool]string{false: "a LimitRange gives new pods resources", true: "the LimitRange is gone"}[s.w.limits]
	return append(ops, op{text, 1, func() { s.w.limits = !s.w.limits }})
}

// full is whether the quota allows no further pod: one that has ended is not counted, one that is being deleted is.
func (w *world) full() bool {
	count := 0
	for _, p := range w.pods() {
		if !ended(p) {
			count++
		}
	}
	return w.quota > 0 && count >= w.quota
}

// limit is what a LimitRange does to a new pod.
func limit(p *corev1.Pod) {
	for i := range p.Spec.Containers {
		p.Spec.Containers[i].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}
	}
}

// definitionOps: somebody deletes the definition of Advanced DaemonSets, and with it the set. The garbage collector does not know the kind of the owner
// of the pods until there is a definition again.
func (s *sim) definitionOps(ops []op) []op {
	switch {
	case s.cfg.dialect != kruiseRun:
		return ops
	case s.w.undefined:
		return append(ops, op{"the definition is there again", 4, func() { s.w.undefined = false }})
	default:
		return append(ops, op{"the definition is deleted", 1, func() {
			s.w.undefined = true
			if s.w.set() != nil {
				s.w.remove(ofSets, setName)
			}
		}})
	}
}

// skewOps: the clocks of nodes, and that of the API server, are wrong, by as much as that of a manager may be.
func (s *sim) skewOps(ops []op) []op {
	set := func(whose string, skew time.Duration, to func(time.Duration)) {
		for i, what := range []string{"slow", "right", "fast"} {
			if d := time.Duration(i-1) * maxSkew; d != skew {
				ops = append(ops, op{words("the clock of %s is %s now", whose, what), 1, func() { s.otherSkew = maxSkew; to(d) }})
			}
		}
	}
	for _, n := range s.w.nodes() {
		set(n.Name, s.clocks[n.Name], func(d time.Duration) { s.clocks[n.Name] = d })
	}
	if s.cfg.dialect == kruiseRun { // in apps/v1 the age of a pod says whether the generation of its template is that of this set, as far as it says anything
		set("the API server", s.w.skew, func(d time.Duration) { s.w.skew = d })
	}
	return ops
}
