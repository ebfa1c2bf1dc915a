// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/openyurt"
	"everynode.dev/everynode/test/harness"
	"everynode.dev/everynode/test/observe"
)

// moment is when something happened.
type moment struct {
	// version is the resourceVersion: the order in which the API server stored all changes.
	version uint64
	// at is the time that the objects show, in whole seconds.
	at time.Time
}

// history is what happened to each node.
type history struct {
	// began is when the update of a node began: its old pod was deleted, marked for an update in place, or reported that a newer revision exists; or a pod of
	// the new revision appeared.
	began map[string]moment
	// done is when a pod of the new revision was ready for the first time.
	done map[string]moment
	// outages are when no manager decided.
	outages []outage
}

// outage is a time without a manager: a soak is longer by that time.
type outage struct{ from, to time.Time }

// waited is the time between two moments in which a manager observed the wave. What an outage takes away is not rounded, unlike the two moments, so a second is
// added then.
func (h history) waited(from, to time.Time) time.Duration {
	waited, rounded := to.Sub(from), time.Duration(0)
	for _, o := range h.outages {
		if o.from.After(from) && o.to.Before(to.Add(time.Second)) {
			waited, rounded = waited-o.to.Sub(o.from), time.Second
		}
	}
	return waited + rounded
}

// historyOf reads a log of a rollout to the revision with that hash.
func historyOf(log []observe.Event, hash string) history {
	h := history{began: map[string]moment{}, done: map[string]moment{}}
	known := map[types.UID]*corev1.Pod{}
	for _, event := range log {
		pod, ok := event.Object.(*corev1.Pod)
		if !ok {
			continue
		}
		was := known[pod.UID]
		known[pod.UID] = pod
		node := observe.NodeOf(pod)
		if at, begins := beginning(event, was, pod, hash); begins {
			first(h.began, node, moment{event.Version, at})
		}
		if updated(pod, hash) && harness.Ready(pod) && pod.DeletionTimestamp == nil && !marked(pod) && !restarting(pod) {
			first(h.done, node, moment{event.Version, readySince(pod)})
		}
	}
	return h
}

func first(of map[string]moment, node string, m moment) {
	if _, known := of[node]; !known {
		of[node] = m
	}
}

// beginning reports whether an event begins the update of a node, and the time that the object shows.
func beginning(event observe.Event, was, pod *corev1.Pod, hash string) (time.Time, bool) {
	received := event.At.Truncate(time.Second)
	if updated(pod, hash) {
		if was == nil {
			return pod.CreationTimestamp.Time, true
		}
		return received, !updated(was, hash)
	}
	switch {
	case pod.DeletionTimestamp != nil && (was == nil || was.DeletionTimestamp == nil):
		grace := time.Duration(0)
		if seconds := pod.DeletionGracePeriodSeconds; seconds != nil {
			grace = time.Duration(*seconds) * time.Second
		}
		return pod.DeletionTimestamp.Add(-grace), true
	case event.Type == watch.Deleted:
		return received, true
	case marked(pod):
		return transition(pod, kruise.InPlaceUpdateReady), true
	case announces(pod, hash):
		return transition(pod, openyurt.PodNeedUpgrade), true
	default:
		return time.Time{}, false
	}
}

// updated reports whether a pod has the revision with that hash.
func updated(pod *corev1.Pod, hash string) bool {
	return pod.Labels[appsv1.ControllerRevisionHashLabelKey] == hash
}

// marked reports whether a pod is in the middle of an update in place.
func marked(pod *corev1.Pod) bool {
	c := condition(pod, kruise.InPlaceUpdateReady)
	return c != nil && c.Status == corev1.ConditionFalse
}

// restarting reports whether a container does not run the image of the pod yet.
func restarting(pod *corev1.Pod) bool {
	for i := range pod.Status.ContainerStatuses {
		s := &pod.Status.ContainerStatuses[i]
		if slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == s.Name && c.Image != s.Image }) {
			return true
		}
	}
	return false
}

// readySince is since when a pod is ready as it is: a kubelet that restarts a container between two reports leaves the condition as it was.
func readySince(pod *corev1.Pod) time.Time {
	since := transition(pod, corev1.PodReady)
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Running != nil && s.State.Running.StartedAt.After(since) {
			since = s.State.Running.StartedAt.Time
		}
	}
	return since
}

// announces reports whether a pod reports that this newer revision exists.
func announces(pod *corev1.Pod, hash string) bool {
	c := condition(pod, openyurt.PodNeedUpgrade)
	return c != nil && c.Status == corev1.ConditionTrue && strings.HasSuffix(c.Message, hash)
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

func transition(pod *corev1.Pod, kind corev1.PodConditionType) time.Time {
	if c := condition(pod, kind); c != nil {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}

// step is a set of nodes that may begin at the same time, and how long the next step waits after the last of them is done.
type step struct {
	wave  string
	nodes []string
	soak  time.Duration
}

// judge returns what is wrong with a history: a node that has not been updated, one that began before all nodes of the earlier steps were done, and one that
// began before the soak had ended, which does not go on during an outage. Times are whole seconds of one clock, rounded down, so a gap between two of them is never shorter than the soak.
func (h history) judge(steps []step) []string {
	var wrong []string
	var last moment // when the last node of the steps before was done
	for k, s := range steps {
		done := last
		for _, node := range s.nodes {
			began, ok := h.began[node]
			switch {
			case !ok:
				wrong = append(wrong, fmt.Sprintf("node %s of wave %s has not begun", node, s.wave))
			case k > 0 && began.version < last.version:
				wrong = append(wrong, fmt.Sprintf("node %s of wave %s began before all nodes of the steps before it were done", node, s.wave))
			case k > 0 && h.waited(last.at, began.at) < steps[k-1].soak:
				wrong = append(wrong, fmt.Sprintf("node %s of wave %s began %s after the last node of wave %s was done, which soaks for %s",
					node, s.wave, h.waited(last.at, began.at), steps[k-1].wave, steps[k-1].soak))
			}
			end, ok := h.done[node]
			if !ok {
				wrong = append(wrong, fmt.Sprintf("node %s of wave %s is not done", node, s.wave))
			}
			done.version = max(done.version, end.version)
			if end.at.After(done.at) {
				done.at = end.at
			}
		}
		last = done
	}
	for _, node := range h.others(steps) {
		wrong = append(wrong, fmt.Sprintf("node %s is in no wave, and has begun", node))
	}
	return wrong
}

// others returns the nodes that have begun and are in none of the steps.
func (h history) others(steps []step) []string {
	var others []string
	for node := range h.began {
		if !slices.ContainsFunc(steps, func(s step) bool { return slices.Contains(s.nodes, node) }) {
			others = append(others, node)
		}
	}
	slices.Sort(others)
	return others
}

// beganAfter returns the nodes that began after a resourceVersion.
func (h history) beganAfter(version uint64) []string {
	var nodes []string
	for node, m := range h.began {
		if m.version > version {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// span returns when the first of some nodes began and when the last was done.
func (h history) span(nodes []string) (began, done time.Time) {
	for _, node := range nodes {
		if at := h.began[node].at; began.IsZero() || at.Before(began) {
			began = at
		}
		if at := h.done[node].at; at.After(done) {
			done = at
		}
	}
	return began, done
}
