// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"everynode.dev/everynode/api/kruise"
)

// View is what a space's watches have shown so far. Its objects are shared; do not change them.
type View struct {
	namespace string
	sets      appslisters.DaemonSetLister
	revisions appslisters.ControllerRevisionLister
	pods      corelisters.PodLister
	events    corelisters.EventLister
	nodes     corelisters.NodeLister
	advanced  cache.Store // of *v1beta1.DaemonSet; nil if the plane does not serve Advanced DaemonSets
}

// Set returns the DaemonSet of that name, or nil; for an Advanced DaemonSet, the part that apps/v1 has too.
func (v View) Set(name string) *appsv1.DaemonSet {
	set, err := v.sets.DaemonSets(v.namespace).Get(name)
	if err != nil {
		return asNative(v.Advanced(name))
	}
	return set
}

// AllPods returns all pods of the namespace, sorted by name.
func (v View) AllPods() []*corev1.Pod {
	pods, _ := v.pods.Pods(v.namespace).List(labels.Everything()) // a lister of a cache does not fail
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods
}

// Pods returns the pods that the set controls, sorted by name, including terminating ones.
func (v View) Pods(set string) []*corev1.Pod {
	owner := v.Set(set)
	if owner == nil {
		return nil
	}
	return slices.DeleteFunc(v.AllPods(), func(pod *corev1.Pod) bool {
		ref := metav1.GetControllerOf(pod)
		return ref == nil || ref.UID != owner.UID || ref.Kind != kruise.Kind
	})
}

// PodOn returns the only pod of the set on the node that is not terminating, or nil.
func (v View) PodOn(set, node string) *corev1.Pod {
	for _, pod := range v.Pods(set) {
		if pod.Spec.NodeName == node && pod.DeletionTimestamp == nil {
			return pod
		}
	}
	return nil
}

// Revisions returns the ControllerRevisions of the namespace, sorted by number and name.
func (v View) Revisions() []*appsv1.ControllerRevision {
	revisions, _ := v.revisions.ControllerRevisions(v.namespace).List(labels.Everything())
	slices.SortFunc(revisions, func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), strings.Compare(a.Name, b.Name))
	})
	return revisions
}

// Originals are the revisions of the namespace but those that repeat another one, with its hash and its name before a suffix, in the form in which the next
// controller looks for it (see docs/migration.md). That controller may give these other numbers.
func (v View) Originals() []*appsv1.ControllerRevision {
	all := v.Revisions()
	return slices.DeleteFunc(slices.Clone(all), func(r *appsv1.ControllerRevision) bool {
		return slices.ContainsFunc(all, func(other *appsv1.ControllerRevision) bool {
			suffix, repeats := strings.CutPrefix(r.Name, other.Name)
			hash := r.Labels[appsv1.ControllerRevisionHashLabelKey]
			return repeats && (suffix == "-kubernetes" || suffix == "-openkruise") && hash == other.Labels[appsv1.ControllerRevisionHashLabelKey]
		})
	})
}

// Event returns the first event with that reason about the object of that name, or nil.
func (v View) Event(object, reason string) *corev1.Event {
	events, _ := v.events.Events(v.namespace).List(labels.Everything())
	for _, event := range events {
		if event.InvolvedObject.Name == object && event.Reason == reason {
			return event
		}
	}
	return nil
}

// Events returns the events about an object of the namespace.
func (v View) Events(object string) []*corev1.Event {
	events, _ := v.events.Events(v.namespace).List(labels.Everything())
	return slices.DeleteFunc(events, func(event *corev1.Event) bool { return event.InvolvedObject.Name != object })
}

// Node returns the node of that name, or nil.
func (v View) Node(name string) *corev1.Node {
	node, err := v.nodes.Get(name)
	if err != nil {
		return nil
	}
	return node
}

// UIDs returns the pods' UIDs by node.
func UIDs(pods []*corev1.Pod) map[string]types.UID {
	uids := make(map[string]types.UID, len(pods))
	for _, pod := range pods {
		uids[pod.Spec.NodeName] = pod.UID
	}
	return uids
}

// Describe lists the sets, revisions and pods of the namespace, for a failure.
func (v View) Describe() string {
	var text strings.Builder
	sets, _ := v.sets.DaemonSets(v.namespace).List(labels.Everything())
	for _, set := range sets {
		s := set.Status
		fmt.Fprintf(&text, "set %s generation %d (observed %d): desired %d current %d misscheduled %d updated %d ready %d available %d unavailable %d\n",
			set.Name, set.Generation, s.ObservedGeneration, s.DesiredNumberScheduled, s.CurrentNumberScheduled, s.NumberMisscheduled,
			s.UpdatedNumberScheduled, s.NumberReady, s.NumberAvailable, s.NumberUnavailable)
	}
	for _, set := range v.advancedSets() {
		describeAdvanced(&text, set)
	}
	for _, revision := range v.Revisions() {
		fmt.Fprintf(&text, "revision %s number %d\n", revision.Name, revision.Revision)
	}
	for _, pod := range v.AllPods() {
		fmt.Fprintf(&text, "pod %s on %s %s revision %s ready %t terminating %t\n", pod.Name, pod.Spec.NodeName, pod.Status.Phase,
			pod.Labels[appsv1.DefaultDaemonSetUniqueLabelKey], Ready(pod), pod.DeletionTimestamp != nil)
	}
	return text.String()
}

// Ready reports whether the pod's condition Ready is True.
func Ready(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
