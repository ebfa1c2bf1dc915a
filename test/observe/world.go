// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"everynode.dev/everynode/api/kruise"
)

// world is the state after the events so far.
type world struct {
	rules Rules
	set   *appsv1.DaemonSet
	// limits is nil for a set of apps/v1.
	limits *limits
	nodes  map[string]*corev1.Node
	pods   map[types.UID]*corev1.Pod
	// eligible and joined are sets of node names.
	eligible, joined map[string]bool
	eligibleSince    map[string]time.Time
	// crowds are the recent higher numbers of eligible nodes (see desired).
	crowds []crowd
	// revisions are those of the set, newest the hash of the last of them, and since when it is that; charged are the nodes that count against the budget where nodes fail (see judgeCharge),
	// doubled are those that count as surging there (see judgeDoubled),
	// upSince and lost what the controller need not know yet (see followUp, followLost).
	revisions map[types.UID]*appsv1.ControllerRevision
	newest    string
	newestAt  time.Time
	charged   map[string]bool
	doubled   map[string]bool
	upSince   map[string]time.Time
	lost      map[types.UID]loss
	// wanted is what the template wants.
	wanted wanted
	// deleted has the pods that are already in Report.Deleted.
	deleted map[types.UID]bool

	// The results of settle after each event: the number of pods of the set by node (see occupies), the surging and the
	// unavailable nodes by name, and the number of eligible nodes that are available.
	counts      map[string]int
	surging     []string
	unavailable []string
	available   int
	// up are the nodes with an available pod.
	up map[string]bool

	// rests are the moments that are still to come, last is the last event.
	rests []Rest
	last  Event

	trace  []string
	traces map[string][]Event // by node
	report Report
}

func newWorld(rules Rules) *world {
	return &world{
		rules: rules, rests: rules.Rests, nodes: map[string]*corev1.Node{}, pods: map[types.UID]*corev1.Pod{},
		eligible: map[string]bool{}, eligibleSince: map[string]time.Time{}, joined: map[string]bool{}, deleted: map[types.UID]bool{}, revisions: map[types.UID]*appsv1.ControllerRevision{},
	}
}

// remember keeps the last lines for a violation, without pods of other sets.
func (w *world) remember(event Event) {
	switch object := event.Object.(type) {
	case *corev1.Pod:
		if !w.ours(object) {
			return
		}
		w.rememberOf(NodeOf(object), event)
	case *corev1.Node:
		if before := w.nodes[object.Name]; before == nil || nodeIsReady(before) != nodeIsReady(object) || len(before.Spec.Taints) != len(object.Spec.Taints) {
			w.rememberOf(object.Name, event)
		}
	}
	w.last = event
	w.trace = append(w.trace, event.String())
	if len(w.trace) > traceLength {
		w.trace = w.trace[1:]
	}
}

func (w *world) rememberOf(node string, event Event) {
	if w.traces == nil {
		w.traces = map[string][]Event{}
	}
	w.traces[node] = append(w.traces[node], event)
	if len(w.traces[node]) > nodeTraceLength {
		w.traces[node] = w.traces[node][1:]
	}
}

// traceOf are the last lines about the node of an event.
func (w *world) traceOf(event Event) (lines []string) {
	if pod, ok := event.Object.(*corev1.Pod); ok {
		for _, e := range w.traces[NodeOf(pod)] {
			lines = append(lines, e.String())
		}
	}
	return lines
}

func (w *world) ours(pod *corev1.Pod) bool {
	if w.set == nil {
		return false
	}
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.UID == w.set.UID && owner.Kind == kruise.Kind // which both dialects call it
}

func (w *world) apply(event Event, judged bool) {
	gone := event.Type == watch.Deleted
	switch object := event.Object.(type) {
	case *appsv1.DaemonSet:
		w.applySet(object)
		w.forget(object, gone)
	case *Advanced:
		w.applyAdvanced(object, event.At)
		w.forget(object, gone)
	case *appsv1.ControllerRevision:
		w.applyRevision(object, gone, event.At)
	case *corev1.Node:
		w.nodes[object.Name] = object
		if gone {
			delete(w.nodes, object.Name)
		}
		w.place(object.Name)
	case *corev1.Pod:
		if judged && w.ours(object) {
			w.notePod(object, gone)
		}
		w.pods[object.UID] = object
		if gone {
			delete(w.pods, object.UID)
		}
	}
}

// applySet applies a new version of the set. For a recreated set (another UID), everything is reset.
func (w *world) applySet(set *appsv1.DaemonSet) {
	if set.Namespace != w.rules.Namespace || set.Name != w.rules.Name {
		return
	}
	anew := w.set == nil || w.set.UID != set.UID
	changed := anew || w.set.Generation != set.Generation
	w.set = set
	if anew {
		clear(w.joined)
		w.report.Baseline = false
	}
	if changed {
		for name := range w.nodes {
			w.place(name)
		}
	}
}

// applyAdvanced takes over a new version of an Advanced DaemonSet.
func (w *world) applyAdvanced(set *Advanced, at time.Time) {
	if w.set == nil || w.set.UID != set.UID {
		w.limits = newLimits()
	}
	w.limits.learn(set, at)
	w.applySet(set.DaemonSet)
}

// forget drops a deleted set: its controller no longer manages its pods.
func (w *world) forget(set metav1.Object, gone bool) {
	if gone && w.set != nil && w.set.UID == set.GetUID() {
		w.set, w.limits = nil, nil
	}
}

// place determines whether a node is eligible. A node that is not leaves the baseline.
func (w *world) place(name string) {
	node, exists := w.nodes[name]
	if exists && w.set != nil && w.rules.Eligible(node, w.set) {
		if !w.eligible[name] {
			w.eligibleSince[name] = w.last.At
		}
		w.eligible[name] = true
		return
	}
	delete(w.eligible, name)
	delete(w.eligibleSince, name)
	delete(w.joined, name)
	if w.limits != nil { // if it comes back, it counts as a new node
		delete(w.limits.last, name)
		delete(w.limits.begunNodes, name)
	}
}

// crowd is how many nodes were eligible until some moment.
type crowd struct {
	nodes int
	until time.Time
}

// followDesired records the number of eligible nodes since an event, and the number before it.
func (w *world) followDesired(at time.Time, before int) {
	now := len(w.eligible)
	w.crowds = slices.DeleteFunc(append(w.crowds, crowd{before, at}), func(c crowd) bool { return c.nodes <= now || w.knows(c.until, at) })
}

// desired returns the number of nodes for percentages: the number of eligible nodes or, if nodes fail, the highest
// recent number that the controller may still use.
func (w *world) desired() int {
	most := len(w.eligible)
	if w.rules.Outages {
		for _, c := range w.crowds {
			most = max(most, c.nodes)
		}
	}
	return most
}

// notePod updates the lists of the report.
func (w *world) notePod(pod *corev1.Pod, gone bool) {
	old, known := w.pods[pod.UID]
	if !known {
		w.report.Created = append(w.report.Created, pod.Name)
	}
	if (gone || pod.DeletionTimestamp != nil) && !w.deleted[pod.UID] {
		w.deleted[pod.UID] = true
		w.report.Deleted = append(w.report.Deleted, pod.Name)
	}
	if known && restarts(pod) > restarts(old) {
		w.report.Restarted = append(w.report.Restarted, pod.Name)
	}
}

// settle counts pods and nodes and finds the baseline. Once checks have begun, a reached baseline is kept; before,
// while the first list is read object by object, a few available nodes are not a baseline.
func (w *world) settle(at time.Time, judged bool) {
	if w.set == nil {
		return
	}
	up := w.countPods(at)
	w.up = up
	w.unavailable, w.available = nil, 0
	for name := range w.eligible {
		switch {
		case up[name]:
			w.joined[name] = true
			w.available++
		case w.joined[name]:
			w.unavailable = append(w.unavailable, name)
		}
	}
	slices.Sort(w.unavailable)
	if w.report.Baseline && judged {
		return
	}
	n := len(w.eligible)
	w.report.Baseline = n > 0 && w.available == n
	w.report.LeastAvailable = n
}

// countPods fills counts and surging and returns the nodes with an available pod.
func (w *world) countPods(at time.Time) map[string]bool {
	minReady := time.Duration(w.set.Spec.MinReadySeconds) * time.Second
	w.counts, w.surging = make(map[string]int, len(w.pods)), nil
	up, coming := make(map[string]bool, len(w.pods)), map[string]bool{}
	for _, pod := range w.pods {
		node := NodeOf(pod)
		if node == "" || !w.ours(pod) || !occupies(pod) {
			continue
		}
		if !w.rules.Outages || pod.DeletionTimestamp == nil || !w.surges() { // on a failed node it stays until the node is back
			w.counts[node]++
		}
		switch {
		case terminal(pod): // it occupies the node, but is neither available nor will be
		case w.limits != nil && preparing(pod): // so does one that waits for its hook
		case w.rules.Outages && changing(pod): // the controller makes it unavailable, however long the kubelet takes
		case Available(pod, minReady, at):
			up[node] = true
		case pod.DeletionTimestamp == nil && !w.undone(pod):
			coming[node] = true
		}
	}
	for node := range coming {
		if up[node] {
			w.surging = append(w.surging, node)
		}
	}
	slices.Sort(w.surging)
	return up
}

func (w *world) podNames(node string) []string {
	var names []string
	for _, pod := range w.pods {
		if w.ours(pod) && NodeOf(pod) == node {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	return names
}
