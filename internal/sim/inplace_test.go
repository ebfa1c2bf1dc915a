// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"encoding/json"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"everynode.dev/everynode/api/everynode"
	api "everynode.dev/everynode/api/kruise"
)

// lately is for how long after a change in place it is asked whether its node runs it: of one that has not come to it within a minute nobody knows
// more, and then it counts as arrived; and the clocks of managers may be wrong. While one is an hour wrong it is not asked.
const lately = time.Minute - 2*maxSkew

// changesOpenly is whether the last change in place of a pod left its gate open.
func changesOpenly(p *corev1.Pod) bool {
	return strings.Contains(p.Annotations[api.InPlaceUpdateState], `"gateOpen":true`)
}

// side is the container that a change in place restarts, in a run with restarts. Each image asks for another restart, so that it still stands for the revision.
const side = "side"

// askForRestart adds to a template with a side that it is restarted.
func askForRestart(template map[string]any) {
	spec := template["spec"].(map[string]any)
	if containers := spec["containers"].([]any); len(containers) > 1 {
		template["metadata"].(map[string]any)["annotations"] = map[string]any{
			everynode.RestartedAt: containers[0].(map[string]any)["image"], everynode.RestartedContainers: side,
		}
	}
}

// restarting is whether the agent of a node is to restart the side of a pod, and has not done so.
func restarting(p *corev1.Pod) bool {
	var state api.InPlaceState
	text, changed := p.Annotations[api.InPlaceUpdateState]
	if !changed || len(p.Status.ContainerStatuses) < 2 || json.Unmarshal([]byte(text), &state) != nil {
		return false
	}
	id, asked := state.Restarts[side]
	return asked && id == p.Status.ContainerStatuses[1].ContainerID
}

// agentless is the node without an agent.
const agentless = "n2"

// hasAgent is whether an agent runs on a node: on all but one, and those on which it has died.
func (s *sim) hasAgent(n *corev1.Node) bool { return n.Name != agentless && !s.pulls.dead[n.Name] }

// restartSide is what an agent does, and the kubelet after it.
func (s *sim) restartSide(p *corev1.Pod) {
	s.judgeRestart(p)
	s.containers++
	p.Status.ContainerStatuses[1] = s.sideStatus(p)
}

// sideStatus is a new container of the side, which reads the label of its pod.
func (s *sim) sideStatus(p *corev1.Pod) corev1.ContainerStatus {
	s.sideMade[p.UID], s.tierOf[p.UID] = s.containers, p.Labels[tierLabel]
	return corev1.ContainerStatus{
		Name: side, Image: side, ImageID: side, ContainerID: words("c%d", s.containers),
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(s.w.now)}},
	}
}

// servesSince is since when a pod that is ready has served: with its gate open, not before its last change, and not before its container was started. A time
// far ahead is of a wrong clock.
func servesSince(p *corev1.Pod, now time.Time) time.Time {
	_, since := readyOf(p)
	var state struct{ UpdateTimestamp time.Time }
	if !changesOpenly(p) || json.Unmarshal([]byte(p.Annotations[api.InPlaceUpdateState]), &state) != nil {
		return since
	}
	if changed := state.UpdateTimestamp; changed.After(since) && !changed.After(now.Add(farAhead)) {
		since = changed
	}
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Running != nil && c.State.Running.StartedAt.After(since) {
			since = c.State.Running.StartedAt.Time
		}
	}
	return since
}

// farAhead is how much later than now a time has to be to be ignored.
const farAhead = 10 * time.Minute

// changedInPlace: a pod is changed in place only while its gate is closed, unless its set leaves it open, and comes into use again only when its node runs what it is to run. All that
// a manager has to know for that stands on the pod, and whatever takes effect late is a write of a manager as well; so this is asked of the world.
func (s *sim) changedInPlace(r *request, before, after *corev1.Pod) {
	s.asksForRestart(before, after)
	if imageOf(before) != imageOf(after) {
		s.judgeWait(r, before, after)
	}
	if imageOf(before) != imageOf(after) {
		s.changed[after.UID] = r.began
		closes := r.m.known.firm(func(k known) bool { return closesGates(k.set) })
		switch {
		case changesOpenly(after) && closes:
			s.blame("in-place", "%s %s to %s with its gate open, and the set closes it", r.m.name, r.text, imageOf(after))
		case !changesOpenly(after) && conditionOf(before, api.InPlaceUpdateReady) != corev1.ConditionFalse:
			s.blame("in-place", "%s %s to %s, which is in use", r.m.name, r.text, imageOf(after))
		}
	}
	opens := !gatesOpen(before) && gatesOpen(after)
	if opens && s.changed[after.UID].After(s.misled) && runs(after) != "" && runs(after) != imageOf(after) && s.w.now.Sub(s.changed[after.UID]) < lately {
		s.blame("in-place", "%s %s, which runs %s and is to run %s", r.m.name, r.text, runs(after), imageOf(after))
	}
}

// closesGates is whether a set wants pods not to be ready while they are changed in place.
func closesGates(set *unstructured.Unstructured) bool {
	return set != nil && set.GetAnnotations()[everynode.InPlaceGate] == "true"
}
