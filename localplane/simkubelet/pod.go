// SPDX-License-Identifier: Apache-2.0

package simkubelet

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// Pod is the state of a pod on its node.
type Pod struct {
	init, main []container
	startTime  time.Time
	// ip is the pod's own address; empty with host networking.
	ip string
	// endsAt is when a deleted pod ends; zero if it is not deleted.
	endsAt time.Time
}

// Node is the part of a node that a pod needs.
type Node struct {
	IP     string
	Images *ImageStore
	// Ready is the node's condition. Pods on a node that is not ready are not reported as ready: when a node is ready
	// again, its pods follow.
	Ready bool
}

// Input is the input of a transition of a pod.
type Input struct {
	Now     time.Time
	Pod     *v1.Pod
	Node    Node
	Profile Profile
}

// Output is the result of a transition.
type Output struct {
	// Status is the new status for the API server, or nil.
	Status *v1.PodStatus
	// Delete reports that the pod has ended and its object must be deleted.
	Delete bool
	// Wake is the latest time of the next transition; zero if there is none.
	Wake time.Time
}

// NewPod restores the state of a pod from its status; a pod without a status is new. ip is used if the status has no
// address.
func NewPod(in Input, ip string) *Pod {
	p := &Pod{ip: ip, startTime: in.Now}
	if t := in.Pod.Status.StartTime; t != nil {
		p.startTime = t.Time
	}
	if known := in.Pod.Status.PodIP; known != "" && !in.Pod.Spec.HostNetwork {
		p.ip = known
	}
	p.init = recallAll(in, in.Pod.Spec.InitContainers, in.Pod.Status.InitContainerStatuses)
	p.main = recallAll(in, in.Pod.Spec.Containers, in.Pod.Status.ContainerStatuses)
	return p
}

func recallAll(in Input, specs []v1.Container, statuses []v1.ContainerStatus) []container {
	list := make([]container, len(specs))
	for i := range specs {
		list[i].image = specs[i].Image
		for j := range statuses {
			if statuses[j].Name == specs[i].Name {
				list[i] = recall(&statuses[j], in.step(&specs[i]))
			}
		}
	}
	return list
}

// Advance makes the transitions that are due.
func (p *Pod) Advance(in Input) Output {
	if in.Pod.DeletionTimestamp != nil {
		return p.end(in)
	}
	if terminal(in.Pod) {
		return Output{}
	}
	if p.advanceInit(in) {
		advanceAll(in, in.Pod.Spec.Containers, p.main)
	}
	out := Output{Wake: p.wake(in)}
	if status := p.status(in); !sameStatus(in.Pod, status) {
		out.Status = status
	}
	return out
}

// end handles a deleted pod: its status does not change, and it ends after a moment. A pod in which nothing has run, or
// that has already ended, ends immediately.
func (p *Pod) end(in Input) Output {
	if p.endsAt.IsZero() {
		p.endsAt = in.Now.Add(p.stopDelay(in))
	}
	if p.endsAt.After(in.Now) {
		return Output{Wake: p.endsAt}
	}
	return Output{Delete: true}
}

func (p *Pod) stopDelay(in Input) time.Duration {
	if terminal(in.Pod) || !p.ranAnything() {
		return 0
	}
	d := in.Profile.spread(in.Profile.PodStop, string(in.Pod.UID))
	if grace := in.Pod.DeletionGracePeriodSeconds; grace != nil {
		d = min(d, time.Duration(*grace)*time.Second)
	}
	return d
}

func (p *Pod) ranAnything() bool {
	for _, list := range [][]container{p.init, p.main} {
		for i := range list {
			if list[i].attempts > 0 {
				return true
			}
		}
	}
	return false
}

// terminal reports whether the pod has ended permanently: its status does not change any more.
func terminal(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// advanceInit advances the init containers one after the other, and reports whether all have finished. A sidecar has
// finished when it runs, and continues to run.
func (p *Pod) advanceInit(in Input) bool {
	for i := range p.init {
		spec := &in.Pod.Spec.InitContainers[i]
		p.init[i].advance(in.step(spec))
		if !initDone(spec, &p.init[i]) && !p.started() {
			return false
		}
	}
	return true
}

func initDone(spec *v1.Container, c *container) bool {
	if sidecar(spec) {
		return c.phase == phaseRunning || c.phase == phaseStopping
	}
	return c.phase == phaseExited && c.ready
}

func sidecar(spec *v1.Container) bool {
	return spec.RestartPolicy != nil && *spec.RestartPolicy == v1.ContainerRestartPolicyAlways
}

// started reports whether any main container of the pod has run: after that, init containers do not run again.
func (p *Pod) started() bool {
	for i := range p.main {
		if p.main[i].attempts > 0 {
			return true
		}
	}
	return false
}

func advanceAll(in Input, specs []v1.Container, list []container) {
	for i := range list {
		list[i].advance(in.step(&specs[i]))
	}
}

func (in Input) step(spec *v1.Container) step {
	s := step{now: in.Now, pod: in.Pod, spec: spec, images: in.Node.Images, profile: in.Profile}
	for i := range in.Pod.Spec.InitContainers {
		if spec == &in.Pod.Spec.InitContainers[i] {
			s.runsOnce = !sidecar(spec)
		}
	}
	return s
}

// wake returns the earliest time of a transition of a container.
func (p *Pod) wake(in Input) time.Time {
	var first time.Time
	for _, list := range [][]container{p.init, p.main} {
		for i := range list {
			until := list[i].until
			if until.After(in.Now) && (first.IsZero() || until.Before(first)) {
				first = until
			}
		}
	}
	return first
}
