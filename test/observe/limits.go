// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
)

// limits is what is known of an Advanced DaemonSet beyond what every set has.
type limits struct {
	// open are the versions of the set that the controller may be acting on, oldest first: that of its last status, and
	// those after it.
	open []*Advanced
	// hashes are the revisions by template, as far as a status has told.
	hashes map[string]string
	// bad are the generations that the controller could make nothing of.
	bad map[int64]bool
	// begun are pods whose end or change has begun, and nodes whose next pod is that of an update.
	begunPods  map[types.UID]bool
	begunNodes map[string]bool
	// last is the revision of the last live pod by node.
	last map[string]string
}

func newLimits() *limits {
	return &limits{hashes: map[string]string{}, bad: map[int64]bool{}, begunPods: map[types.UID]bool{}, begunNodes: map[string]bool{}, last: map[string]string{}}
}

// learn takes over a version of the set.
func (l *limits) learn(set *Advanced) {
	if n := len(l.open); n > 0 && l.open[n-1].Generation == set.Generation {
		l.open = l.open[:n-1]
	}
	l.open = append(l.open, set)
	observed := set.Status.ObservedGeneration
	l.open = slices.DeleteFunc(l.open, func(version *Advanced) bool { return version != set && version.Generation < observed })
	if invalid(set) {
		l.bad[observed] = true
	}
	if then := l.open[0]; then.Generation == observed && set.UpdateRevision != "" && !l.bad[observed] {
		l.hashes[then.template] = set.UpdateRevision // it is that of the version which was seen, and users may be ahead of it
	}
}

// invalid is whether the controller says that it cannot make anything of the set; its revision is then that of an earlier version.
func invalid(set *Advanced) bool {
	return slices.ContainsFunc(set.Status.Conditions, func(c appsv1.DaemonSetCondition) bool { return c.Reason == "InvalidSpec" })
}

// current is whether the hash is that of the version's template. One that no status has told yet is none of those that are known.
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

// followLimits judges one pod event of an Advanced DaemonSet, unless it belongs to the first list; old is the pod before it,
// nil if there was none.
func (w *world) followLimits(event Event, old *corev1.Pod, judged bool) {
	pod, isPod := event.Object.(*corev1.Pod)
	if w.limits == nil || !isPod || !w.ours(pod) || w.set.DeletionTimestamp != nil {
		return
	}
	if judged {
		w.judgeLimits(event, old, pod)
	}
	if pod.DeletionTimestamp == nil && event.Type != watch.Deleted {
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
			w.judgeBegin(event, old, node)
		}
		l.begunPods[pod.UID] = true
		w.judgeInPlace(event, old, pod)
	default:
		w.judgeInPlace(event, old, pod)
		if !preparing(pod) && !marked(pod) && pod.DeletionTimestamp == nil { // it was called off, or has arrived
			delete(l.begunPods, pod.UID)
			delete(l.begunNodes, node)
		}
	}
}

// begins is whether this event is the first that the pod shows of its end or of its change in place, brought about by the controller. Of a pod
// that somebody else deletes in the end, what came before that was the controller's.
func (w *world) begins(old, pod *corev1.Pod, gone bool) bool {
	over := gone || pod.DeletionTimestamp != nil
	if terminal(old) || over && w.rules.Excused[pod.UID] {
		return false
	}
	return over && old.DeletionTimestamp == nil || preparing(pod) && !preparing(old) || marked(pod) && !marked(old) || hashOf(pod) != hashOf(old)
}

// judgeBegin reports the end, or the change, of a pod that nothing asked for.
func (w *world) judgeBegin(event Event, old *corev1.Pod, node string) {
	l := w.limits
	if !w.eligible[node] || w.taken(old, node) {
		return
	}
	l.begunNodes[node] = true
	isOld, allowed := false, false
	var reason string
	for _, version := range l.open {
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

// taken is whether another live pod of the set is on the node: then this one is the old one of a pair, or one too many.
func (w *world) taken(pod *corev1.Pod, node string) bool {
	for _, other := range w.pods {
		if other.UID != pod.UID && w.ours(other) && NodeOf(other) == node && other.DeletionTimestamp == nil && !terminal(other) {
			return true
		}
	}
	return false
}

// judgeCreation reports a pod of a revision that its node should not have got.
func (w *world) judgeCreation(event Event, pod *corev1.Pod, node string) {
	l := w.limits
	last, known := l.last[node]
	if !w.eligible[node] || l.begunNodes[node] || hashOf(pod) == last {
		return
	}
	var reason string
	for _, version := range l.open {
		switch {
		case known && !l.current(version, hashOf(pod)):
			reason = "its revision is neither the newest nor that of the pod before"
			continue
		case onDelete(version), !known && !version.progressive:
			return // what somebody else has deleted, and a new node, gets the newest revision
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

// refusal says what keeps a version of the set from updating the node, whose update counts already; "" if nothing does.
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

// beyondPartition says that more nodes than the partition allows are updated, or being updated; "" if that is not so.
func (w *world) beyondPartition(version *Advanced) string {
	desired := w.desired()
	allowed := max(0, desired-partitionOf(version.rolling.Partition, desired))
	spent := map[string]bool{}
	for node := range w.limits.begunNodes {
		if w.eligible[node] {
			spent[node] = true
		}
	}
	for _, pod := range w.pods {
		live := w.ours(pod) && pod.DeletionTimestamp == nil && !terminal(pod)
		if node := NodeOf(pod); live && w.eligible[node] && w.limits.current(version, hashOf(pod)) {
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
		return desired // nothing may be updated with a partition that says nothing
	}
	return resolved
}

// judgeInPlace reports a change of a pod that is in use, and one that is put into use before the node runs it.
func (w *world) judgeInPlace(event Event, old, pod *corev1.Pod) {
	if hashOf(old) != hashOf(pod) && !marked(pod) {
		w.violate(InPlace, event, fmt.Sprintf("pod %s was changed while it was in use", pod.Name))
	}
	if !marked(old) || marked(pod) || pod.DeletionTimestamp != nil {
		return
	}
	for _, status := range pod.Status.ContainerStatuses {
		for _, container := range pod.Spec.Containers {
			if container.Name == status.Name && container.Image != status.Image {
				w.violate(InPlace, event, fmt.Sprintf("pod %s was put into use while container %s runs %s instead of %s",
					pod.Name, status.Name, status.Image, container.Image))
			}
		}
	}
}
