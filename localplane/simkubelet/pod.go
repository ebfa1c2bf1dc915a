// SPDX-License-Identifier: Apache-2.0

package simkubelet

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// Pod is what a node knows of one of its pods.
type Pod struct {
	init, main []container
	startTime  time.Time
	// ip is the pod's own address; empty with the node's network.
	ip string
	// endsAt is when a deleted pod has ended; zero while it is not deleted.
	endsAt time.Time
}

// Node is what a pod needs of its node.
type Node struct {
	IP     string
	Images *ImageStore
	// Ready is the node's condition. A pod is not told ready on a node that is not: when a node comes back, so do its
	// pods, after it.
	Ready bool
}

// Input is one look at a pod.
type Input struct {
	Now     time.Time
	Pod     *v1.Pod
	Node    Node
	Profile Profile
}

// Output is what follows from a look at a pod.
type Output struct {
	// Status is what the API server should be told, if it is not nil.
	Status *v1.PodStatus
	// Delete says that the pod has ended and its object goes.
	Delete bool
	// Wake is when to look again at the latest; zero when nothing happens by itself.
	Wake time.Time
}

// NewPod is the state of a pod as far as its status tells; one without a status is new. The address is used if the
// status holds none.
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

// Advance moves the pod as far as the time allows and says what follows.
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

// end is a deleted pod: its status stays as it is, and after a moment it goes. One of which nothing ever ran, and one that
// had ended before, goes at once.
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

// terminal tells whether the pod has ended for good, whoever said so: nothing changes its status any more.
func terminal(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// advanceInit moves the init containers, one after the other, and tells whether all have done their part. A sidecar has
// once it runs, and goes on.
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

// started tells whether any container of the pod proper has run: the initialisation is never repeated after that.
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

// wake is the earliest time at which a container moves on by itself.
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
