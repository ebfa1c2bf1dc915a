// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// judgeCharge replaces judgeBudget if nodes fail independently (Rules.Outages): any number of nodes may fail, and the
// controller notices that late. So a node is charged from the moment at which the controller deletes its last available
// pod, while the node is ready, until it has an available pod again; and no more nodes may be charged than the budget
// allows. A node is not charged if another of its pods was in use shortly before and was lost for another reason: see
// followLost.
func (w *world) judgeCharge(event Event, old *corev1.Pod, before map[string]bool) {
	if w.charged == nil {
		w.charged, w.doubled, w.upSince, w.lost = map[string]bool{}, map[string]bool{}, map[string]time.Time{}, map[types.UID]loss{}
	}
	maps.DeleteFunc(w.charged, func(node string, _ bool) bool { return w.up[node] || !w.eligible[node] })
	pod, isPod := event.Object.(*corev1.Pod)
	decided := event.At
	if isPod {
		decided = w.decided(event, old, pod)
	}
	seen := w.followUp(event.At, decided)
	w.followLost(event, old)
	w.judgeDoubled(event, seen)
	if !isPod || old == nil || w.set == nil || w.set.DeletionTimestamp != nil || !w.ours(pod) || !w.begins(old, pod, event.Type == watch.Deleted) {
		return
	}
	node := NodeOf(pod)
	if object := w.nodes[node]; w.eligible[node] && before[node] && !w.up[node] && object != nil && nodeIsReady(object) && seen[node] && !w.robbed(node) {
		w.charged[node] = true
	}
	w.report.Limit, _ = w.budgets()
	w.report.MostUnavailable = max(w.report.MostUnavailable, len(w.charged))
	if now := len(w.charged); w.charged[node] && now > w.report.Limit {
		w.violate(Budget, event, fmt.Sprintf("the controller has made %d nodes unavailable (%s), at most %d allowed",
			now, strings.Join(slices.Sorted(maps.Keys(w.charged)), ", "), w.report.Limit))
	}
}

// judgeDoubled replaces judgeSurge if nodes fail independently. Next to a pod that is not available, a new one needs no surge, and that pod may become available
// later: when a node is back, for example. So a node counts only if the controller must have known of an available pod when it decided to create another one
// next to it, and until the node does not surge any more.
func (w *world) judgeDoubled(event Event, seen map[string]bool) {
	maps.DeleteFunc(w.doubled, func(node string, _ bool) bool { return !slices.Contains(w.surging, node) })
	before := len(w.doubled)
	if pod, isPod := event.Object.(*corev1.Pod); isPod && event.Type == watch.Added && w.ours(pod) {
		if node := NodeOf(pod); seen[node] && slices.Contains(w.surging, node) {
			w.doubled[node] = true
		}
	}
	w.judgeSurge(event, slices.Sorted(maps.Keys(w.doubled)), before)
}

// followUp keeps since when nodes have an available pod, and returns those of which the controller must have known when it decided what this event shows: a pod
// that is found unavailable may be taken at any time, also when it has become available in the same moment.
func (w *world) followUp(now, decided time.Time) map[string]bool {
	seen := map[string]bool{}
	for node, since := range w.upSince {
		seen[node] = w.knows(since, decided)
		if !w.up[node] {
			delete(w.upSince, node)
		}
	}
	for node := range w.up {
		if _, known := w.upSince[node]; !known {
			w.upSince[node] = now
		}
	}
	return seen
}

// unseen is how long after the API server or its storage has ended the controller may not have seen what has changed since: the API server starts, which takes some
// seconds, and a watch that has failed several times tries again after 10 s at most (internal/clustercache/informers).
const unseen = 20 * time.Second

// knows reports whether the controller must have known at one time of a change at an earlier one.
func (w *world) knows(change, at time.Time) bool {
	late := func(death time.Time) bool {
		return !change.Before(death.Add(-certain)) && !at.Before(death) && at.Sub(death) <= unseen
	}
	return at.Sub(change) > certain && !slices.ContainsFunc(w.rules.Deaths, late)
}

// loss is a pod in use that its node has lost for another reason than the controller.
type loss struct {
	node string
	at   time.Time
}

// followLost records the losses that the controller need not have known before this event: its requests in the meantime
// were decided while that pod was still in use. If the controller deletes that pod after all, this is its own action.
func (w *world) followLost(event Event, old *corev1.Pod) {
	maps.DeleteFunc(w.lost, func(_ types.UID, loss loss) bool { return w.knows(loss.at, event.At) })
	pod, isPod := event.Object.(*corev1.Pod)
	if !isPod || old == nil || !w.ours(pod) {
		return
	}
	gone := event.Type == watch.Deleted
	switch {
	case w.begins(old, pod, gone):
		delete(w.lost, pod.UID)
	case w.inUse(old, event.At) && (gone || !w.inUse(pod, event.At)):
		w.lost[pod.UID] = loss{NodeOf(pod), event.At}
	}
}

// robbed reports whether the node has just lost a pod for another reason than the controller.
func (w *world) robbed(node string) bool {
	for _, loss := range w.lost {
		if loss.node == node {
			return true
		}
	}
	return false
}

// inUse reports whether a pod of the set makes its node available.
func (w *world) inUse(pod *corev1.Pod, at time.Time) bool {
	minReady := time.Duration(w.set.Spec.MinReadySeconds) * time.Second
	return !changing(pod) && (w.limits == nil || !preparing(pod)) && Available(pod, minReady, at)
}

// judgeNewest is Kept for a set of apps/v1, whose newest revision has the highest number, unless a user has deleted that of the template. Only a
// ledger has revisions.
func (w *world) judgeNewest(event Event, old *corev1.Pod) {
	pod, isPod := event.Object.(*corev1.Pod)
	if !isPod || old == nil || w.set == nil || w.limits != nil || w.set.DeletionTimestamp != nil || !w.ours(pod) || !w.begins(old, pod, event.Type == watch.Deleted) {
		return
	}
	node := NodeOf(pod)
	if w.newest != "" && w.eligible[node] && !w.taken(old, node) && hashOf(old) == w.newest && w.runs(old) && !w.newestAt.After(w.decided(event, old, pod)) {
		w.violate(Kept, event, fmt.Sprintf("pod %s on node %s is up to date, and was deleted", old.Name, node))
	}
}

// applyRevision takes over a new version of a revision.
func (w *world) applyRevision(revision *appsv1.ControllerRevision, gone bool, at time.Time) {
	w.revisions[revision.UID] = revision
	if gone {
		delete(w.revisions, revision.UID)
	}
	number, before := int64(0), w.newest
	w.newest = ""
	for _, other := range w.revisions {
		if other.Revision > number {
			number, w.newest = other.Revision, other.Labels[appsv1.DefaultDaemonSetUniqueLabelKey]
		}
	}
	if w.newest != before {
		w.newestAt = at
	}
}

// undone reports whether a new pod has a revision that is no longer the newest. It is deleted in the same pass of the
// controller, in any order, in which pods of the newest revision are created on other nodes, as in upstream's
// controller: so it does not count as surging.
func (w *world) undone(pod *corev1.Pod) bool {
	return w.rules.Outages && w.limits == nil && w.newest != "" && hashOf(pod) != w.newest
}

// surges reports whether the set creates first and deletes later. Then a terminating pod does not block others.
func (w *world) surges() bool {
	_, surge := w.budgets()
	return surge > 0
}
