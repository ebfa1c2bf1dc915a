// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/test/harness"
)

// finalizer is what the preDelete hook of the set asks for.
const finalizer = "example.io/unready-blocker"

// hooked is a manifest with that hook.
func hooked(manifest string) string {
	return strings.Replace(manifest, `"template":`, `"lifecycle": {"preDelete": {"finalizersHandler": ["`+finalizer+`"]}}, "template":`, 1)
}

// Which nodes are left in which state: the first ones are done, and so on. Those that are not done, and not old, are as many
// as the budget has.
const (
	done      = 20            // changed in place, and in use again
	begun     = done + 3      // being changed in place
	begunOld  = begun + 3     // the same, with the older name of the annotation
	announced = begunOld + 1  // to be changed when its grace period is over
	marked    = announced + 1 // not in use any more, and not yet changed
	waiting   = marked + 1    // to be deleted, its hook is in the way
	released  = waiting + 1   // to be deleted, nothing is in the way
	newerHash = "6b4c5d7f9d"
)

// takenOver: OpenKruise's manager goes in the middle of an update in place. Pods belong to the set by its
// older and by its newer API version, revisions are in the form that its older API types have. Everynode finishes what was
// begun; the only pods that end are the two that OpenKruise had decided to delete.
func takenOver(t *testing.T) {
	c := cluster(t)
	s := c.Space(t, allNodes)
	o := startOpenkruise(t, s)
	older := recorded(t, "minimal", openkruise13)
	newer := older.with(minimalImage, minimalImage2, newerHash)
	apply(t, s, hooked(newer.manifest(alpha, inPlace)))
	c.Kill(t, harness.ManagerComponent)

	l := &legacy{t: t, s: s, older: older, newer: newer}
	l.makeAll()
	w := newWitness(t, s)
	l.leaveInTheMiddle()
	before := pods(s.View())
	o.leaves(t)
	c.StartComponent(t, harness.ManagerComponent)
	s.Wait("every pod that may live is updated", l.finished(before))
	if pod := s.View().PodOn(agent, s.Nodes[waiting-1]); pod == nil || pod.UID != before[s.Nodes[waiting-1]].UID {
		t.Errorf("the pod whose hook is in the way is gone: %v", pod)
	}
	s.Kubectl("patch", "pod", before[s.Nodes[waiting-1]].Name, "--type=merge", "-p", `{"metadata": {"finalizers": null}}`)
	s.Wait("the last node is updated", harness.RolledOut(agent, 1, allNodes), image(minimalImage2), ownsHistory)
	l.judge(w.testify(t), before)
	wantNumbers(t, s.View(), 1, 2)

	s.Wait("the hooks are off", noFinalizers)
	handOver(t, s, w, newer.manifest(native, standard), advancedSets, native)
}

// legacy plays OpenKruise's manager.
type legacy struct {
	t            *testing.T
	s            *harness.Space
	older, newer past
}

// makeAll makes revisions and pods, and updates those of the first nodes.
func (l *legacy) makeAll() {
	set := l.s.View().Advanced(agent)
	l.older.makeRevision(l.t, l.s, 1, owner(alpha, set))
	l.newer.makeRevision(l.t, l.s, 2, owner(beta, set))
	for i, node := range l.s.Nodes {
		by := owner([]string{alpha, beta}[i%2], set)
		l.older.makePod(l.t, l.s, node, by, func(pod *corev1.Pod) {
			pod.Spec.ReadinessGates = append(pod.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: kruise.InPlaceUpdateReady})
			if i == waiting-1 {
				pod.Finalizers = []string{finalizer}
			}
		})
	}
	l.s.Wait("the pods run", running)
	for _, node := range l.s.Nodes {
		l.setReady(node, corev1.ConditionTrue)
	}
	l.s.Wait("the pods are ready", allReady(allNodes))
	for _, node := range l.s.Nodes[:done] {
		l.begin(node, kruise.InPlaceUpdateState)
	}
	l.s.Wait("the first pods run their new images", func(v harness.View) error {
		for node, pod := range pods(v) {
			if i := slices.Index(l.s.Nodes, node); i < done && !runsItsImage(pod) {
				return fmt.Errorf("pod %s does not yet", pod.Name)
			}
		}
		return nil
	})
	for _, node := range l.s.Nodes[:done] {
		l.setReady(node, corev1.ConditionTrue)
	}
	l.s.Wait("the pods are ready", allReady(allNodes))
}

// leaveInTheMiddle is the last that OpenKruise's manager does.
func (l *legacy) leaveInTheMiddle() {
	for _, node := range l.s.Nodes[done:begun] {
		l.begin(node, kruise.InPlaceUpdateState)
	}
	for _, node := range l.s.Nodes[begun:begunOld] {
		l.begin(node, kruise.InPlaceUpdateStateOld)
	}
	for _, node := range l.s.Nodes[begunOld:announced] {
		l.announce(node)
	}
	for _, node := range l.s.Nodes[announced:marked] {
		l.setReady(node, corev1.ConditionFalse)
	}
	for _, node := range l.s.Nodes[marked:released] {
		l.patch(node, "", map[string]any{"metadata": map[string]any{
			"labels":      map[string]any{kruise.LifecycleState: kruise.LifecyclePreparingDelete},
			"annotations": map[string]any{kruise.LifecycleTimestamp: time.Now().UTC().Format(time.RFC3339)},
		}})
	}
	l.s.Wait("this can be seen", func(v harness.View) error {
		states := 0
		for _, pod := range v.AllPods() {
			if pod.Labels[kruise.LifecycleState] != "" || statusOf(pod) == corev1.ConditionFalse {
				states++
			}
		}
		if states != released-done {
			return fmt.Errorf("%d pods are in the middle of something, want %d", states, released-done)
		}
		return nil
	})
}

// begin begins an update in place: the pod is taken out of use, then changed.
func (l *legacy) begin(node, key string) {
	l.setReady(node, corev1.ConditionFalse)
	patch := l.state(node, key)
	patch["spec"] = map[string]any{"containers": []any{map[string]any{"name": agent, "image": minimalImage2}}}
	l.patch(node, "", patch)
}

// announce begins an update in place with a grace period: the pod is taken out of use, and what is to be changed is written down.
func (l *legacy) announce(node string) {
	l.setReady(node, corev1.ConditionFalse)
	l.patch(node, "", l.state(node, kruise.InPlaceUpdateState))
	grace := kruise.InPlaceGrace{Revision: l.newer.hash, ContainerImages: map[string]string{agent: minimalImage2}, GraceSeconds: 1}
	l.patch(node, "", map[string]any{"metadata": map[string]any{"annotations": map[string]any{kruise.InPlaceUpdateGrace: string(asJSON(l.t, grace))}}})
}

// state is a patch of the metadata with which an update in place begins.
func (l *legacy) state(node, key string) map[string]any {
	now := time.Now().UTC().Format(time.RFC3339)
	state := asJSON(l.t, map[string]any{
		"revision": l.newer.hash, "updateTimestamp": now, "updateImages": true,
		"lastContainerStatuses":  map[string]any{agent: map[string]any{"imageID": pods(l.s.View())[node].Status.ContainerStatuses[0].ImageID}},
		"containerBatchesRecord": []any{map[string]any{"timestamp": now, "containers": []string{agent}}},
	})
	return map[string]any{"metadata": map[string]any{
		"labels":      map[string]any{appsv1.ControllerRevisionHashLabelKey: l.newer.hash},
		"annotations": map[string]any{key: string(state)},
	}}
}

func asJSON(t testing.TB, value any) []byte {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// setReady sets the condition InPlaceUpdateReady.
func (l *legacy) setReady(node string, status corev1.ConditionStatus) {
	condition := map[string]any{"type": kruise.InPlaceUpdateReady, "status": status, "lastTransitionTime": metav1.Now()}
	if status == corev1.ConditionFalse {
		condition["reason"] = kruise.ReasonStartInPlaceUpdate
	}
	l.patch(node, "status", map[string]any{"status": map[string]any{"conditions": []any{condition}}})
}

func (l *legacy) patch(node, subresource string, patch map[string]any) {
	l.t.Helper()
	raw := asJSON(l.t, patch)
	var resources []string
	if subresource != "" {
		resources = append(resources, subresource)
	}
	name := pods(l.s.View())[node].Name
	_, err := l.s.Cluster.Client.CoreV1().Pods(l.s.Name).Patch(l.s.Context(), name, types.StrategicMergePatchType, raw, metav1.PatchOptions{}, resources...)
	if err != nil {
		l.t.Fatalf("patching pod %s: %v", name, err)
	}
}

// finished is met when all pods are updated and in use, but for the one that waits for its hook.
func (l *legacy) finished(before map[string]*corev1.Pod) harness.Condition {
	return func(v harness.View) error {
		now := pods(v)
		for i, node := range l.s.Nodes {
			pod := now[node]
			if i == waiting-1 {
				continue
			}
			if pod == nil || !harness.Ready(pod) || pod.Spec.Containers[0].Image != minimalImage2 || pod.DeletionTimestamp != nil {
				return fmt.Errorf("node %d, %s: its pod is not updated and in use", i, node)
			}
		}
		return nil
	}
}

// judge compares what happened with what had been left.
func (l *legacy) judge(seen testimony, before map[string]*corev1.Pod) {
	l.t.Helper()
	seen.oneEach(l.t, "taken over from OpenKruise")
	if unavailable := allNodes - seen.fewest; !seen.settled || unavailable > budget {
		l.t.Errorf("%d nodes were unavailable, the budget is %d:\n%s", unavailable, budget, seen.worst)
	}
	if len(seen.made) != released-marked || len(seen.ended) != released-marked {
		l.t.Errorf("pods made %v, ended %v: want those alone that were to be deleted", seen.made, seen.ended)
	}
	now := pods(l.s.View())
	for i, node := range l.s.Nodes {
		pod := now[node]
		switch same := pod.UID == before[node].UID; {
		case i >= marked && i < released:
			if same {
				l.t.Errorf("pod %s was to be deleted, and is still there", pod.Name)
			}
		case !same:
			l.t.Errorf("node %d has another pod, %s", i, pod.Name)
		case restarts(pod) != 1 || statusOf(pod) != corev1.ConditionTrue || pod.Labels[appsv1.ControllerRevisionHashLabelKey] != newerHash:
			l.t.Errorf("node %d: pod %s was restarted %d times, is of revision %s, conditions %v", i, pod.Name, restarts(pod),
				pod.Labels[appsv1.ControllerRevisionHashLabelKey], pod.Status.Conditions)
		}
	}
}

// pods are the pods by node; one that is terminating only where there is no other.
func pods(v harness.View) map[string]*corev1.Pod {
	found := map[string]*corev1.Pod{}
	for _, pod := range v.AllPods() {
		if node := pod.Spec.NodeName; found[node] == nil || pod.DeletionTimestamp == nil {
			found[node] = pod
		}
	}
	return found
}

// running is met when every pod's container runs.
func running(v harness.View) error {
	for _, pod := range v.AllPods() {
		if pod.Spec.NodeName == "" || !runsItsImage(pod) {
			return fmt.Errorf("pod %s does not run yet", pod.Name)
		}
	}
	return nil
}

// runsItsImage is whether the container is ready with the image that the specification has.
func runsItsImage(pod *corev1.Pod) bool {
	statuses := pod.Status.ContainerStatuses
	return len(statuses) == 1 && statuses[0].Ready && statuses[0].Image == pod.Spec.Containers[0].Image
}

// statusOf is the condition InPlaceUpdateReady.
func statusOf(pod *corev1.Pod) corev1.ConditionStatus {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == kruise.InPlaceUpdateReady {
			return condition.Status
		}
	}
	return corev1.ConditionUnknown
}

// noFinalizers is met when nothing holds any pod.
func noFinalizers(v harness.View) error {
	for _, pod := range v.AllPods() {
		if len(pod.Finalizers) != 0 {
			return fmt.Errorf("pod %s has finalizers %v", pod.Name, pod.Finalizers)
		}
	}
	return nil
}
