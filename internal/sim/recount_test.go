// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	api "everynode.dev/everynode/api/kruise"
)

// numbers are those of a status, in the order of numberNames.
type numbers [7]int64

func numberNames() [7]string {
	return [7]string{
		"desiredNumberScheduled", "currentNumberScheduled", "numberMisscheduled", "numberReady", "updatedNumberScheduled",
		"numberAvailable", "numberUnavailable",
	}
}

const (
	desired = iota
	current
	misscheduled
	ready
	updated
	availables
	unavailables
)

// String names them.
func (n numbers) String() string {
	var list []string
	for i, name := range numberNames() {
		list = append(list, words("%s %d", name, n[i]))
	}
	return strings.Join(list, ", ")
}

func numbersOf(object map[string]any) numbers {
	var n numbers
	for i, name := range numberNames() {
		n[i], _, _ = unstructured.NestedInt64(object, "status", name)
	}
	return n
}

// recount counts the nodes that are known, as Kubernetes defines the status of a DaemonSet: the oldest pod speaks for its node, also while it is
// terminating, and a pod in the middle of a change in place is not ready.
func (k known) recount(minReady time.Duration, now time.Time) numbers {
	var n numbers
	for name := range k.nodes {
		speaks := k.oldest(name)
		if k.fit(name) != mustRun {
			if speaks != nil {
				n[misscheduled]++
			}
			continue
		}
		n[desired]++
		if speaks == nil {
			continue
		}
		n[current]++
		if k.newest(speaks) {
			n[updated]++
		}
		is, _ := readyOf(speaks)
		if !is || changing(speaks) {
			continue
		}
		n[ready]++
		if minReady == 0 || !servesSince(speaks, now).Add(minReady).After(now) {
			n[availables]++
		}
	}
	n[unavailables] = n[desired] - n[availables]
	return n
}

// oldest is the oldest pod of the set on a node, where one that runs counts as older than one that is not scheduled; nil if there is none, but for
// those that have ended and are being deleted.
func (k known) oldest(node string) *corev1.Pod {
	var list []*corev1.Pod
	for _, p := range k.pods {
		going := p.DeletionTimestamp != nil || k.doomed[p.UID]
		if nodeOf(p) == node && ownedBy(p, k.set) && !(ended(p) && going) {
			list = append(list, p)
		}
	}
	if len(list) == 0 {
		return nil
	}
	rank := func(p *corev1.Pod) int { return min(len(p.Spec.NodeName), 1) }
	return slices.MinFunc(list, func(a, b *corev1.Pod) int {
		return cmp.Or(rank(b)-rank(a), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
}

// changing is whether a change in place of a pod is under way: a gate is closed, and not because the pod is about to be deleted; or it was changed with
// the gate open, and its node does not run that, or has not restarted what is to be restarted.
func changing(p *corev1.Pod) bool {
	return changesOpenly(p) && (runs(p) != imageOf(p) || restarting(p)) || slices.ContainsFunc(p.Spec.ReadinessGates, func(g corev1.PodReadinessGate) bool {
		return conditionOf(p, g.ConditionType) != corev1.ConditionTrue && !(preparing(p) && g.ConditionType == api.KruisePodReady)
	})
}

// count notes what a status may say from now on: a pass decides once, at a moment between its beginning and its end.
func (k *knowledge) count() {
	now := k.clock.Now()
	if now.After(k.late) {
		k.late = now
	}
	if k.set != nil && k.recounts != nil {
		k.recounts[k.recount(k.s.minReady(), now)] = true
		if template := k.known; k.wanted != "" {
			template.wanted = ""
			k.recounts[template.recount(k.s.minReady(), now)] = true
		}
		k.countWaiting(now)
	}
}

// countWaiting notes what a status may say while deletes wait in the slow lane, for the lease or for their turn: they are decided, and their pods count as
// terminating before the deletes are sent.
func (k *knowledge) countWaiting(now time.Time) {
	if k.waiting == nil {
		return
	}
	as := k.known
	as.doomed = maps.Clone(k.doomed)
	for _, uid := range k.waiting() {
		as.doomed[uid] = true
	}
	if len(as.doomed) > len(k.doomed) {
		k.recounts[as.recount(k.s.minReady(), now)] = true
	}
}

// statusIn is the status that a patch writes.
func statusIn(patch string) (map[string]any, error) {
	var body struct {
		Status map[string]any `json:"status"`
	}
	err := json.Unmarshal([]byte(patch), &body)
	return body.Status, err
}

// numbersIn are the numbers that a patch of the status writes.
func numbersIn(patch string) (numbers, error) {
	var n numbers
	status, err := statusIn(patch)
	for i, name := range numberNames() {
		number, _ := status[name].(float64)
		n[i] = int64(number)
	}
	return n, err
}

// collides is whether a patch of the status counts one more collision of revisions, and says for the rest what the status has said before.
func (s *sim) collides(patch string, n numbers) bool {
	status, err := statusIn(patch)
	count, counts := status["collisionCount"].(float64)
	if err != nil || !counts || s.w.set() == nil {
		return false
	}
	return int64(count) > collisions(s.w.set()) && slices.ContainsFunc(s.w.logs[ofSets], func(e event) bool {
		return numbersOf(e.object.(*unstructured.Unstructured).Object) == n
	})
}

// said is whether a status may say so: that is what was known at one moment. Of a set that is not there any more, which its manager has yet to see,
// the revisions may have been collected; then nobody knows what the newest is called, nor which pods are of it, and nobody gets to read the status.
// A status says that no pod is of it where the newest one could not be created yet, and pods of an earlier set are there already.
func (k *knowledge) said(got numbers) bool {
	now := k.s.w.set()
	gone := k.set != nil && (now == nil || now.GetUID() != k.set.GetUID())
	unrecorded := k.set != nil && !k.recorded(k.set) && (k.then.set == nil || !k.recorded(k.then.set))
	for n := range k.recounts {
		switch {
		case n == got:
			return true
		case gone:
			n[updated] = got[updated]
		case unrecorded:
			n[updated] = 0
		}
		if n == got {
			return true
		}
	}
	return false
}

// recorded is whether the newest revision of a set is known, or one that it adopts: none that is being deleted. Until the newest one has been written, a stranger's revision may have the hash
// of pods that were made from the one that is being deleted, so they are old for each manager, and for the native controller.
func (k known) recorded(set *unstructured.Unstructured) bool {
	for _, r := range k.revisions {
		if owner := metav1.GetControllerOf(r); (owner == nil && r.DeletionTimestamp == nil || owner != nil && owner.UID == set.GetUID()) && imageOfRevision(r) == imageOfSet(set) {
			return true
		}
	}
	return false
}

// judgeStatus: a status that is written says what its manager has known at one moment of the pass.
func (s *sim) judgeStatus(r *request) {
	got, err := numbersIn(r.action.image)
	if err != nil {
		s.blame("status", "%s writes %q: %v", r.m.name, r.action.image, err)
		return
	}
	if k := r.m.known; !k.said(got) && !s.collides(r.action.image, got) {
		var counted []string
		for n := range k.recounts {
			counted = append(counted, n.String())
		}
		slices.Sort(counted)
		s.blame("status", "%s writes %s; what it knew during its pass was %s", r.m.name, got, strings.Join(counted, "; or "))
	}
}

// checkConditions: an Advanced DaemonSet says that all is done, or what keeps the rest back; one with OpenYurt's annotations that nothing is wrong.
func (s *sim) checkConditions(set *unstructured.Unstructured, n numbers, left leftover) {
	want := map[string]string{}
	if isKruise(set) {
		limit, _ := budgetsOf(set, int(n[desired]))
		want = map[string]string{"Progressing": "False Complete", "Available": "True Nodes", "Degraded": "False AsExpected", "Paused": "False NotPaused"}
		switch {
		case left.waiting > 0:
			want["Progressing"] = "True InProgress"
		case left.held > 0:
			want["Progressing"] = "False Held"
		}
		if limitsOf(set).paused {
			want["Paused"] = "True Paused"
		}
		if n[unavailables] > int64(limit) {
			want["Available"] = "False Nodes"
		}
		wantHealth(want, n, left)
	}
	conditions, _, _ := unstructured.NestedSlice(set.Object, "status", "conditions")
	for _, c := range conditions {
		c := c.(map[string]any)
		kind := c["type"].(string)
		if got := words("%s %s", c["status"], c["reason"]); got != want[kind] {
			s.blame("conditions", "%s is %s (%s), expected was %q", kind, got, c["message"], want[kind])
		}
		delete(want, kind)
	}
	for _, kind := range sorted(want) {
		s.blame("conditions", "%s is missing", kind)
	}
}

// wantHealth adds the conditions that tools for GitOps read: the set is as its specification asks, with what that holds back.
func wantHealth(want map[string]string, n numbers, left leftover) {
	_, reason, _ := strings.Cut(want["Progressing"], " ")
	is := "Ready"
	switch {
	case left.waiting > 0:
		is = "Reconciling"
	case n[unavailables] > 0:
		is, reason = "Reconciling", "Unavailable"
	}
	for _, kind := range []string{"Ready", "Reconciling", "Stalled"} {
		want[kind] = "False " + reason
	}
	want[is] = "True " + reason
}
