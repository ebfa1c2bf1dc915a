// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/json"
	"fmt"
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
}

// restarter stops the containers of the node's pods that an update in place restarts; the kubelet starts them again. A request names the
// container by its ID, so it is served once at most: the next container has another ID. The state is in the pods and in the runtime.
type restarter struct {
	runtime stopper
	// pods returns the pods of the node as the API server has them; seen is false before they were read.
	pods    func() (pods []*corev1.Pod, seen bool)
	changed chan struct{}

	mu sync.Mutex
	// known are the requests that are being served or have been served, by the ID of the container.
	known      map[string]bool
	background sync.WaitGroup
}

// restart is a request to stop a container.
type restart struct {
	container cri.Container
	grace     time.Duration
	// pod is for the log.
	pod string
}

func newRestarter(pods func() ([]*corev1.Pod, bool)) *restarter {
	return &restarter{pods: pods, changed: make(chan struct{}, 1), known: map[string]bool{}}
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
	open := map[string]restart{}
	for _, pod := range pods {
		for _, one := range restartsOf(pod) {
			open[one.container.ID] = one
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
	klog.InfoS("Stopping a container, which the kubelet starts again", "pod", one.pod, "container", one.container.Name, "id", one.container.ID)
	err := r.runtime.Stop(ctx, one.container, one.grace)
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
	grace := time.Duration(corev1.DefaultTerminationGracePeriodSeconds) * time.Second
	if pod.Spec.TerminationGracePeriodSeconds != nil {
		grace = time.Duration(min(*pod.Spec.TerminationGracePeriodSeconds, math.MaxInt32)) * time.Second // more than a duration can be is allowed
	}
	var all []restart
	for _, status := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses) {
		_, id, valid := strings.Cut(status.ContainerID, "://")
		if asked, ok := state.Restarts[status.Name]; !ok || asked != status.ContainerID || !valid || status.State.Running == nil || !restartable(pod, status.Name) {
			continue
		}
		all = append(all, restart{
			container: cri.Container{ID: id, Name: status.Name, PodUID: string(pod.UID)}, grace: grace, pod: fmt.Sprintf("%s/%s", pod.Namespace, pod.Name),
		})
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
