// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/agent/cri"
)

// stopper is the part of the container runtime that restarts need.
type stopper interface {
	Stop(ctx context.Context, c cri.Container, grace time.Duration) error
	Environment(ctx context.Context, c cri.Container) (map[string]string, error)
}

// kubeletDelay is how long after the agent has seen them a container is stopped whose environment reads labels or annotations: the kubelet has a watch of its
// own, and would start the container with the values that it knows.
const kubeletDelay = time.Second

// maxStale is how often a container is stopped once more because the kubelet has started it with old values: something else may change its environment.
const maxStale = 3

// restarter stops the containers of the node's pods that an update in place restarts; the kubelet starts them again. A request names the
// container by its ID, so it is served once at most: the next container has another ID. The state is in the pods and in the runtime.
type restarter struct {
	runtime stopper
	// pods returns the pods of the node as the API server has them; seen is false before they were read.
	pods    func() (pods []*corev1.Pod, seen bool)
	changed chan struct{}

	mu sync.Mutex
	// known are the requests that are being served or have been served, by the ID of the container.
	known map[string]bool
	// checks are containers that were stopped for their environment. It is lost with the agent, since later edits of a pod must stop nothing.
	checks     map[podContainer]check
	background sync.WaitGroup
}

// restart is a request to stop a container.
type restart struct {
	container cri.Container
	grace     time.Duration
	// environment are the values of its environment variables that read labels and annotations of the pod.
	environment map[string]string
	// pod is for the log.
	pod string
}

// podContainer is a container of a pod, whatever its ID is.
type podContainer struct{ podUID, name string }

func (r *restart) key() podContainer { return podContainer{r.container.PodUID, r.container.Name} }

// check is a container whose successor may have old values in its environment.
type check struct {
	stopped string // its ID
	stale   int
}

func newRestarter(pods func() ([]*corev1.Pod, bool)) *restarter {
	return &restarter{pods: pods, changed: make(chan struct{}, 1), known: map[string]bool{}, checks: map[podContainer]check{}}
}

// notify wakes run after a change of pods.
func (r *restarter) notify() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// run runs until ctx ends. A stop that is in progress is cancelled; the next agent starts it again.
func (r *restarter) run(ctx context.Context) {
	defer r.background.Wait()
	for {
		r.step(ctx)
		select {
		case <-ctx.Done():
			return
		case <-r.changed:
		}
	}
}

// step begins to serve new requests, and forgets those that are no more.
func (r *restarter) step(ctx context.Context) {
	pods, seen := r.pods()
	if !seen {
		return // what is on disk may be old, and a request may have been withdrawn since
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.checks, func(of podContainer, _ check) bool {
		return !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return string(pod.UID) == of.podUID })
	})
	open := map[string]restart{}
	for _, pod := range pods {
		for _, one := range restartsOf(pod) {
			open[one.container.ID] = one
		}
		for _, one := range r.successors(pod) {
			r.background.Go(func() { r.verify(ctx, one) })
		}
	}
	maps.DeleteFunc(r.known, func(id string, _ bool) bool { _, still := open[id]; return !still })
	for _, id := range slices.Sorted(maps.Keys(open)) {
		if !r.known[id] {
			r.known[id] = true
			r.background.Go(func() { r.serve(ctx, open[id]) })
		}
	}
}

// serve stops a container. After a failure, the request is served again after a delay.
func (r *restarter) serve(ctx context.Context, one restart) {
	if len(one.environment) > 0 {
		select {
		case <-ctx.Done():
			return
		case <-time.After(kubeletDelay):
		}
	}
	klog.InfoS("Stopping a container, which the kubelet starts again", "pod", one.pod, "container", one.container.Name, "id", one.container.ID)
	err := r.runtime.Stop(ctx, one.container, one.grace)
	if err == nil && len(one.environment) > 0 {
		r.expect(&one)
	}
	if err == nil || ctx.Err() != nil {
		return
	}
	klog.ErrorS(err, "Stopping a container failed", "pod", one.pod, "container", one.container.Name)
	select {
	case <-ctx.Done():
		return
	case <-time.After(downInterval):
	}
	r.mu.Lock()
	delete(r.known, one.container.ID)
	r.mu.Unlock()
	r.notify()
}

// expect has the successor of a stopped container verified.
func (r *restarter) expect(one *restart) {
	r.mu.Lock()
	c := r.checks[one.key()]
	c.stopped = one.container.ID
	r.checks[one.key()] = c
	r.mu.Unlock()
	r.notify() // its successor may run already
}

// successors are the containers of a pod that are to be verified. Those that will not be are forgotten.
func (r *restarter) successors(pod *corev1.Pod) (all []restart) {
	if len(r.checks) == 0 {
		return nil
	}
	for one := range runningContainers(pod) {
		c, waits := r.checks[one.key()]
		if !waits || c.stopped == "" || c.stopped == one.container.ID {
			continue
		}
		if c.stale >= maxStale || len(one.environment) == 0 || pod.DeletionTimestamp != nil {
			delete(r.checks, one.key())
			continue
		}
		c.stopped = "" // one look at each successor
		r.checks[one.key()] = c
		all = append(all, one)
	}
	return all
}

// verify stops a container that the kubelet has started with old values.
func (r *restarter) verify(ctx context.Context, one restart) {
	has, err := r.runtime.Environment(ctx, one.container)
	stale := err == nil && has != nil && slices.ContainsFunc(slices.Collect(maps.Keys(one.environment)), func(name string) bool { return has[name] != one.environment[name] })
	if err == nil && stale {
		klog.InfoS("The kubelet has started a container with labels or annotations of before", "pod", one.pod, "container", one.container.Name, "id", one.container.ID)
		err = r.runtime.Stop(ctx, one.container, one.grace)
	}
	r.mu.Lock()
	if stale && err == nil {
		c := r.checks[one.key()]
		r.checks[one.key()] = check{stopped: one.container.ID, stale: c.stale + 1}
	} else {
		delete(r.checks, one.key())
	}
	r.mu.Unlock()
	r.notify()
	if err != nil && ctx.Err() == nil {
		klog.ErrorS(err, "Verifying the environment of a container that was restarted failed", "pod", one.pod, "container", one.container.Name)
	}
}

// restartsOf returns what an update in place of a pod requests. It is void if another controller, which does
// not know about restarts, has put the pod into use again.
func restartsOf(pod *corev1.Pod) []restart {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || owner.Kind != kruise.Kind || !strings.HasPrefix(owner.APIVersion, kruise.Group+"/") || pod.DeletionTimestamp != nil {
		return nil
	}
	state := kruise.InPlaceState{}
	text := pod.Annotations[kruise.InPlaceUpdateState]
	if text == "" || json.Unmarshal([]byte(text), &state) != nil || !state.GateOpen && inUse(pod) {
		return nil
	}
	var all []restart
	for one := range runningContainers(pod) {
		if id, asked := state.Restarts[one.container.Name]; asked && strings.HasSuffix(id, "://"+one.container.ID) && restartable(pod, one.container.Name) {
			all = append(all, one)
		}
	}
	return all
}

// runningContainers are the containers of a pod that run, as requests to stop them.
func runningContainers(pod *corev1.Pod) iter.Seq[restart] {
	grace := time.Duration(corev1.DefaultTerminationGracePeriodSeconds) * time.Second
	if pod.Spec.TerminationGracePeriodSeconds != nil {
		grace = time.Duration(min(*pod.Spec.TerminationGracePeriodSeconds, math.MaxInt32)) * time.Second // more than a duration can be is allowed
	}
	return func(yield func(restart) bool) {
		for _, status := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses) {
			_, id, valid := strings.Cut(status.ContainerID, "://")
			if valid && status.State.Running != nil && !yield(restart{
				container: cri.Container{ID: id, Name: status.Name, PodUID: string(pod.UID)}, grace: grace,
				environment: metadataVariables(pod, status.Name), pod: fmt.Sprintf("%s/%s", pod.Namespace, pod.Name),
			}) {
				return
			}
		}
	}
}

// metadataVariables are the environment variables of a container that read labels or annotations of its pod, with their values.
func metadataVariables(pod *corev1.Pod, name string) map[string]string {
	var all map[string]string
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		if c.Name != name {
			continue
		}
		for _, env := range c.Env {
			delete(all, env.Name) // of several with the same name, the last one counts
			if env.ValueFrom == nil || env.ValueFrom.FieldRef == nil {
				continue
			}
			for prefix, values := range map[string]map[string]string{"metadata.labels['": pod.Labels, "metadata.annotations['": pod.Annotations} {
				if key, reads := strings.CutPrefix(env.ValueFrom.FieldRef.FieldPath, prefix); reads {
					if all == nil {
						all = map[string]string{}
					}
					all[env.Name] = values[strings.TrimSuffix(key, "']")]
				}
			}
		}
	}
	return all
}

// restartable is whether a container may be stopped: its preStop hook would not run, or the kubelet might not start it again. The manager looks at the template, and
// a webhook may have changed the pod. The manager recreates such a pod.
func restartable(pod *corev1.Pod, name string) bool {
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		if c.Name == name {
			always := c.RestartPolicy == nil || *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
			return always && len(c.RestartPolicyRules) == 0 && (c.Lifecycle == nil || c.Lifecycle.PreStop == nil)
		}
	}
	return true
}

// inUse reports whether the readiness gate of updates in place is open.
func inUse(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == kruise.InPlaceUpdateReady && c.Status == corev1.ConditionTrue
	})
}
