// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
)

// limits is the additional state of an Advanced DaemonSet.
type limits struct {
	// open are the versions of the set that the controller may be using, oldest first: that of its last status, and
	// later ones.
	open []*Advanced
	// closed are those before them.
	closed []closed
	// hashes are the revisions by template, as far as a status has shown.
	hashes map[string]string
	// bad are the generations that the controller has rejected.
	bad map[int64]bool
	// begunPods are pods whose deletion or change has begun; begun nodes are those whose next pod belongs to an update.
	begunPods  map[types.UID]bool
	begunNodes map[string]bool
	// last is the revision of the last running pod by node.
	last map[string]string
}

func newLimits() *limits {
	return &limits{hashes: map[string]string{}, bad: map[int64]bool{}, begunPods: map[types.UID]bool{}, begunNodes: map[string]bool{}, last: map[string]string{}}
}

// learn takes over a version of the set.
func (l *limits) learn(set *Advanced, at time.Time) {
	if n := len(l.open); n > 0 && l.open[n-1].Generation == set.Generation {
		l.open = l.open[:n-1]
	}
	l.open = append(l.open, set)
	observed := set.Status.ObservedGeneration
	l.open = slices.DeleteFunc(l.open, func(version *Advanced) bool {
		over := version != set && version.Generation < observed
		if over {
			l.closed = append(l.closed, closed{version, at})
		}
		return over
	})
	if invalid(set) {
		l.bad[observed] = true
	}
	if then := l.open[0]; then.Generation == observed && set.UpdateRevision != "" && !l.bad[observed] {
		l.hashes[then.template] = set.UpdateRevision // it belongs to the observed version; the specification may be newer
	}
}

// invalid reports whether the controller has rejected the set; then it has the revision of an earlier version.
func invalid(set *Advanced) bool {
	return slices.ContainsFunc(set.Status.Conditions, func(c appsv1.DaemonSetCondition) bool { return c.Reason == "InvalidSpec" })
}

// current reports whether the hash belongs to the version's template. The hash of a template that is not in any status
// yet is none of the known ones.
func (l *limits) current(version *Advanced, hash string) bool {
	if known, ok := l.hashes[version.template]; ok {
		return known == hash
	}
	for _, known := range l.hashes {
		if known == hash {
			return false
		}
	}
	return true
}

// followLimits checks a pod event of an Advanced DaemonSet, unless it belongs to the first list; old is the pod before
// the event, or nil.
func (w *world) followLimits(event Event, old *corev1.Pod, judged bool) {
	pod, isPod := event.Object.(*corev1.Pod)
	if w.limits == nil || !isPod || !w.ours(pod) || w.set.DeletionTimestamp != nil {
		return
	}
	if judged {
		w.judgeLimits(event, old, pod)
	}
	switch {
	case pod.DeletionTimestamp != nil || event.Type == watch.Deleted:
	case hashOf(pod) == "": // a webhook has taken it, and the controller does not know what it was
		delete(w.limits.last, NodeOf(pod))
	default:
		w.limits.last[NodeOf(pod)] = hashOf(pod)
	}
}

func (w *world) judgeLimits(event Event, old, pod *corev1.Pod) {
	node, gone, l := NodeOf(pod), event.Type == watch.Deleted, w.limits
	if old != nil {
		w.judgeHook(event, old, pod)
	}
	switch {
	case old == nil && !gone:
		w.judgeCreation(event, pod, node)
		delete(l.begunNodes, node)
	case old == nil:
	case w.begins(old, pod, gone):
		if !l.begunPods[pod.UID] {
			w.judgeBegin(event, old, pod)
		}
		l.begunPods[pod.UID] = true
		w.judgeInPlace(event, old, pod)
	default:
		w.judgeInPlace(event, old, pod)
		if !preparing(pod) && !changing(pod) && pod.DeletionTimestamp == nil { // it was cancelled, or has finished
			delete(l.begunPods, pod.UID)
			delete(l.begunNodes, node)
		}
	}
}

// begins reports whether this event is the first by which the controller deletes a pod or changes it in place. If
// another client deletes the pod in the end, earlier events are still those of the controller.
func (w *world) begins(old, pod *corev1.Pod, gone bool) bool {
	over := gone || pod.DeletionTimestamp != nil
	if terminal(old) || over && w.rules.Excused[pod.UID] {
		return false
	}
	return over && old.DeletionTimestamp == nil || preparing(pod) && !preparing(old) || marked(pod) && !marked(old) || hashOf(pod) != hashOf(old)
}

// judgeBegin reports the end, or the change, of a pod that nothing asked for.
func (w *world) judgeBegin(event Event, old, pod *corev1.Pod) {
	node, l := NodeOf(pod), w.limits
	if !w.eligible[node] || w.taken(old, node) {
		return
	}
	l.begunNodes[node] = true
	isOld, allowed := false, false
	var reason string
	for _, version := range l.openAt(w.decided(event, old, pod)) {
		if l.current(version, hashOf(old)) {
			continue
		}
		isOld = true
		if reason = w.refusal(version, node); reason == "" {
			allowed = true
		}
	}
	switch {
	case !isOld:
		w.violate(Kept, event, fmt.Sprintf("pod %s on node %s is up to date, and was deleted or changed", old.Name, node))
	case !allowed:
		w.violate(Limits, event, fmt.Sprintf("the update of node %s began although %s", node, reason))
	}
}

// taken reports whether another running pod of the set is on the node: then this one is the old one of a pair, or one
// too many.
func (w *world) taken(pod *corev1.Pod, node string) bool {
	for _, other := range w.pods {
		if other.UID != pod.UID && w.ours(other) && NodeOf(other) == node && other.DeletionTimestamp == nil && !terminal(other) {
			return true
		}
	}
	return false
}

// judgeCreation reports a pod with a wrong revision.
func (w *world) judgeCreation(event Event, pod *corev1.Pod, node string) {
	l := w.limits
	last, known := l.last[node]
	if !w.eligible[node] || l.begunNodes[node] || hashOf(pod) == last || hashOf(pod) == "" {
		return
	}
	var reason string
	for _, version := range l.openAt(w.decided(event, nil, pod)) {
		switch {
		case known && !l.current(version, hashOf(pod)):
			reason = "its revision is neither the newest nor that of the pod before"
			continue
		case onDelete(version), !known && !version.progressive:
			return // a pod that replaces one deleted by another client, and a pod on a new node, has the newest revision
		case known:
			reason = w.refusal(version, node)
		default:
			reason = w.beyondPartition(version)
		}
		if reason == "" {
			return
		}
	}
	w.violate(Limits, event, fmt.Sprintf("pod %s was created on node %s although %s", pod.Name, node, reason))
}

// refusal returns why a version of the set must not update the node, whose update is already counted, or "".
func (w *world) refusal(version *Advanced, node string) string {
	switch object := w.nodes[node]; {
	case onDelete(version):
		return "the strategy is OnDelete"
	case version.rolling.Paused != nil && *version.rolling.Paused:
		return "the update is paused"
	case !version.nodes.Matches(labels.Set(object.Labels)):
		return "the selector chooses other nodes"
	default:
		return w.beyondPartition(version)
	}
}

// beyondPartition returns an error text if more nodes than the partition allows are updated or being updated, or "". If nodes fail, the controller need not know yet of
// those that have just come back; with a percentage, there may be more of them than the partition allows.
func (w *world) beyondPartition(version *Advanced) string {
	desired := w.desired()
	allowed := max(0, desired-partitionOf(version.rolling.Partition, desired))
	spent := map[string]bool{}
	counts := func(node string) bool {
		return w.eligible[node] && (!w.rules.Outages || w.knows(w.eligibleSince[node], w.last.At))
	}
	for node := range w.limits.begunNodes {
		if counts(node) {
			spent[node] = true
		}
	}
	for _, pod := range w.pods {
		live := w.ours(pod) && pod.DeletionTimestamp == nil && !terminal(pod)
		if node := NodeOf(pod); live && counts(node) && w.limits.current(version, hashOf(pod)) {
			spent[node] = true
		}
	}
	if len(spent) <= allowed {
		return ""
	}
	return fmt.Sprintf("the partition allows %d of %d nodes to be updated, and this is number %d", allowed, desired, len(spent))
}

func onDelete(set *Advanced) bool {
	return set.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType
}

func partitionOf(value *intstr.IntOrString, desired int) int {
	if value == nil {
		return 0
	}
	resolved, err := intstr.GetScaledValueFromIntOrPercent(value, desired, false)
	if err != nil {
		return desired // an invalid partition allows no updates
	}
	return resolved
}
