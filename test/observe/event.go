// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// Event is one change of one object.
type Event struct {
	// Version is the resourceVersion of the change.
	Version uint64
	// At is when the event was received.
	At   time.Time
	Type watch.EventType
	// Object is a *corev1.Pod, *corev1.Node, *appsv1.DaemonSet or *Advanced; it is not changed after it was recorded.
	Object metav1.Object
}

// NewEvent reads the version from the object.
func NewEvent(kind watch.EventType, object metav1.Object, at time.Time) (Event, error) {
	version, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if err != nil {
		return Event{}, fmt.Errorf("reading the resourceVersion %q of %s: %w", object.GetResourceVersion(), object.GetName(), err)
	}
	return Event{Version: version, At: at, Type: kind, Object: object}, nil
}

// Sort sorts a log in the order of commits. Events of one commit and object keep their order.
func Sort(log []Event) {
	slices.SortStableFunc(log, func(a, b Event) int {
		switch {
		case a.Version < b.Version:
			return -1
		case a.Version > b.Version:
			return 1
		default:
			return 0
		}
	})
}

// String returns one line of a trace.
func (e Event) String() string {
	return fmt.Sprintf("%d %s %-8s %s", e.Version, e.At.Format("15:04:05.000"), e.Type, describe(e.Object))
}

func describe(object metav1.Object) string {
	switch o := object.(type) {
	case *corev1.Pod:
		return describePod(o)
	case *corev1.Node:
		return fmt.Sprintf("node %s (ready %t, taints %d)", o.Name, nodeIsReady(o), len(o.Spec.Taints))
	case *appsv1.DaemonSet:
		return fmt.Sprintf("set %s generation %d", o.Name, o.Generation)
	case *Advanced:
		return fmt.Sprintf("set %s generation %d (observed %d, revision %s)", o.Name, o.Generation, o.Status.ObservedGeneration, o.UpdateRevision)
	default:
		return fmt.Sprintf("%T %s", object, object.GetName())
	}
}

func describePod(pod *corev1.Pod) string {
	words := []string{"pod", pod.Name, "on", NodeOf(pod), string(pod.Status.Phase)}
	if hash := pod.Labels[appsv1.DefaultDaemonSetUniqueLabelKey]; hash != "" {
		words = append(words, "revision", hash)
	}
	if since, ready := readySince(pod); ready {
		words = append(words, "ready since", since.Format("15:04:05"))
	} else {
		words = append(words, "not ready")
	}
	if pod.DeletionTimestamp != nil {
		words = append(words, "terminating")
	}
	if preparing(pod) {
		words = append(words, "preparing")
	}
	switch {
	case marked(pod):
		words = append(words, "marked")
	case changing(pod):
		words = append(words, "changing")
	}
	return strings.Join(words, " ")
}

// NodeOf returns the node that a pod is bound to or pinned to, or "".
func NodeOf(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName
	}
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, term := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			if field.Key == metav1.ObjectNameField && field.Operator == corev1.NodeSelectorOpIn && len(field.Values) == 1 {
				return field.Values[0]
			}
		}
	}
	return ""
}

// Available reports whether the pod counts as available at that moment; see the package comment.
func Available(pod *corev1.Pod, minReady time.Duration, at time.Time) bool {
	if pod.DeletionTimestamp != nil || terminal(pod) {
		return false
	}
	since, ready := readySince(pod)
	return ready && !since.Add(minReady).After(at)
}

// occupies reports whether a pod still counts as a pod of its node: until it is both in a terminal phase and being
// deleted. A failed pod that is not deleted yet must not have a replacement. When it is deleted too, it can no longer
// run, and only a finalizer or an unreachable kubelet keeps the object; then the replacement may be created, as
// upstream's controller does.
func occupies(pod *corev1.Pod) bool {
	return !terminal(pod) || pod.DeletionTimestamp == nil
}

func terminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

func readySince(pod *corev1.Pod) (time.Time, bool) {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			since := condition.LastTransitionTime.Time
			if changed := changedSince(pod); changed.After(since) {
				since = changed
			}
			return since, condition.Status == corev1.ConditionTrue
		}
	}
	return time.Time{}, false
}

// restarts returns the number of container restarts of a pod.
func restarts(pod *corev1.Pod) int32 {
	var total int32
	for _, status := range pod.Status.ContainerStatuses {
		total += status.RestartCount
	}
	return total
}
