// SPDX-License-Identifier: Apache-2.0

package kruise

import (
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/base"
	"everynode.dev/everynode/internal/rollout"
)

// restarts returns the containers that a change between two templates restarts. An undo restarts nothing, because its restart time is earlier.
func restarts(from, to map[string]any) []string {
	before, after := texts(from, "annotations")[everynode.RestartedAt], texts(to, "annotations")[everynode.RestartedAt]
	if after == "" || !isLater(before, after) {
		return nil
	}
	return restartedContainers(podSpec(to), texts(to, "annotations"))
}

// isLater reports whether after requests another restart than before. A value that is not a time is another request if it differs.
func isLater(before, after string) bool {
	was, err := time.Parse(time.RFC3339, before)
	is, otherErr := time.Parse(time.RFC3339, after)
	if err != nil || otherErr != nil {
		return before != after
	}
	return is.After(was)
}

// restartedContainers are the containers that the annotations of a template name for a restart, as far as they can be restarted: containers, and sidecars.
func restartedContainers(spec *corev1.PodSpec, annotations map[string]string) []string {
	text, some := annotations[everynode.RestartedContainers]
	chosen := strings.Split(text, ",")
	var names []string
	for c := range LongRunning(spec) {
		if !some || slices.ContainsFunc(chosen, func(name string) bool { return strings.TrimSpace(name) == c.Name }) {
			names = append(names, c.Name)
		}
	}
	return names
}

// warnRestarts reports names of containers that cannot be restarted.
func warnRestarts(r *base.Reader, w *dialect.Workload) {
	text, some := texts(w.Template, "annotations")[everynode.RestartedContainers]
	if !some {
		return
	}
	known := slices.Collect(LongRunning(podSpec(w.Template)))
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); !slices.ContainsFunc(known, func(c *corev1.Container) bool { return c.Name == name }) {
			r.Warn(base.ReasonIgnoredField, "Annotation %s of the template names %q, which is not a container that can be restarted: correct the name, or remove it.",
				everynode.RestartedContainers, name)
		}
	}
}

// LongRunning are the containers of a pod that run as long as it does: sidecars, and all but the init containers.
func LongRunning(spec *corev1.PodSpec) iter.Seq[*corev1.Container] {
	return func(yield func(*corev1.Container) bool) {
		for i := range spec.InitContainers {
			if c := &spec.InitContainers[i]; isSidecar(c) && !yield(c) {
				return
			}
		}
		for i := range spec.Containers {
			if !yield(&spec.Containers[i]) {
				return
			}
		}
	}
}

// isSidecar reports whether an init container runs as long as the pod.
func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// Restartable reports whether the agent of a node can restart a container: it does not run preStop hooks, and the kubelet must start it again whatever its exit code is.
func Restartable(c *corev1.Container) bool {
	always := c.RestartPolicy == nil || isSidecar(c)
	return always && len(c.RestartPolicyRules) == 0 && (c.Lifecycle == nil || c.Lifecycle.PreStop == nil)
}

// canRestart reports whether the agent can restart all these containers of a template.
func canRestart(template map[string]any, names []string) bool {
	for c := range LongRunning(podSpec(template)) {
		if slices.Contains(names, c.Name) && !Restartable(c) {
			return false
		}
	}
	return true
}

// restartsFor are the containers of a pod that a change restarts, with their IDs, by which the agent knows that it has not done so yet. A
// container that does not run starts anyway, and one whose image changes is a new one. Requests of an earlier change stay, because the
// agent may be about to execute them.
func restartsFor(p *corev1.Pod, names []string, waits map[string]kruise.InPlaceContainer) map[string]string {
	wanted := pendingRestarts(p)
	for _, name := range names {
		if s := statusOf(p, name); s != nil && s.State.Running != nil && s.ContainerID != "" {
			if wanted == nil {
				wanted = map[string]string{}
			}
			wanted[name] = s.ContainerID
		}
	}
	for name := range waits {
		delete(wanted, name)
	}
	return wanted
}

// pendingRestarts returns the restarts that the last change of a pod has requested and that were not observed yet.
func pendingRestarts(p *corev1.Pod) map[string]string {
	state, since := stateOf(p)
	if phase, _ := changeOf(p, state, since); phase != rollout.InPlacePatched {
		return nil
	}
	var pending map[string]string
	for name, id := range state.Restarts {
		if s := statusOf(p, name); s == nil || s.ContainerID == "" || s.ContainerID == id {
			if pending == nil {
				pending = map[string]string{}
			}
			pending[name] = id
		}
	}
	return pending
}

// restarted reports whether all containers of a pod that the agent should restart have been replaced.
func restarted(p *corev1.Pod, state *kruise.InPlaceState) bool {
	for name, id := range state.Restarts {
		s := statusOf(p, name)
		if s == nil || s.ContainerID == "" || s.ContainerID == id || s.State.Running == nil && !state.GateOpen {
			return false
		}
	}
	return true
}

// waitsForever is whether a change asks for the restart of a container that no agent restarts: not of the template, which was looked at before, but because a
// webhook has changed the pod.
func waitsForever(p *corev1.Pod, state *kruise.InPlaceState) bool {
	if state == nil || len(state.Restarts) == 0 {
		return false
	}
	for c := range LongRunning(&p.Spec) {
		if id, asked := state.Restarts[c.Name]; asked && !Restartable(c) {
			if s := statusOf(p, c.Name); s != nil && s.ContainerID == id && s.State.Running != nil {
				return true
			}
		}
	}
	return false
}

// neverStarts is whether a change gives another image to a container that had ended before, and that its restart policy leaves so: the kubelet replaces only containers that run.
func neverStarts(p *corev1.Pod, state *kruise.InPlaceState, since time.Time) bool {
	if state == nil {
		return false
	}
	for c := range LongRunning(&p.Spec) {
		before, changes := state.LastContainerStatuses[c.Name]
		s := statusOf(p, c.Name)
		if changes && s != nil && s.ContainerID == before.ContainerID && endedForGood(c, s.State.Terminated) && s.State.Terminated.FinishedAt.Time.Before(since) {
			return true
		}
	}
	return false
}

// endedForGood is whether a container that has ended in this way is not started again.
func endedForGood(c *corev1.Container, t *corev1.ContainerStateTerminated) bool {
	if t == nil || c.RestartPolicy == nil || len(c.RestartPolicyRules) > 0 {
		return false
	}
	return *c.RestartPolicy == corev1.ContainerRestartPolicyNever || *c.RestartPolicy == corev1.ContainerRestartPolicyOnFailure && t.ExitCode == 0
}

// restartPatience is how long it may take until the agent has stopped the containers of a pod; 0 if none of them still runs.
func restartPatience(p *corev1.Pod, state *kruise.InPlaceState) time.Duration {
	for name, id := range state.Restarts {
		if s := statusOf(p, name); s != nil && s.ContainerID == id && s.State.Running != nil {
			grace := int64(corev1.DefaultTerminationGracePeriodSeconds)
			if p.Spec.TerminationGracePeriodSeconds != nil {
				grace = min(*p.Spec.TerminationGracePeriodSeconds, math.MaxInt32) // more than a duration can be is allowed
			}
			return rollout.RestartWithin + time.Duration(grace)*time.Second
		}
	}
	return 0
}

// statusOf is what the node reports of a container; nil if nothing.
func statusOf(p *corev1.Pod, name string) *corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{p.Status.ContainerStatuses, p.Status.InitContainerStatuses} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}
