// SPDX-License-Identifier: Apache-2.0

package simkubelet

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

// status returns the status of the pod for the API server: the fields and conditions that belong to a kubelet.
func (p *Pod) status(in Input) *v1.PodStatus {
	start := seconds(p.startTime)
	st := &v1.PodStatus{
		ObservedGeneration: in.Pod.Generation,
		StartTime:          &start,
		HostIP:             in.Node.IP,
		HostIPs:            []v1.HostIP{{IP: in.Node.IP}},
		PodIP:              p.ip,
	}
	if in.Pod.Spec.HostNetwork {
		st.PodIP = in.Node.IP
	}
	if st.PodIP != "" {
		st.PodIPs = []v1.PodIP{{IP: st.PodIP}}
	}
	initialized := p.initialized(in)
	st.InitContainerStatuses = p.containerStatuses(in, in.Pod.Spec.InitContainers, p.init, true)
	st.ContainerStatuses = p.containerStatuses(in, in.Pod.Spec.Containers, p.main, initialized)
	st.Phase = p.phase(initialized)
	st.Conditions = p.conditions(in, st.Phase)
	return st
}

func (p *Pod) containerStatuses(in Input, specs []v1.Container, list []container, podStarted bool) []v1.ContainerStatus {
	var out []v1.ContainerStatus
	for i := range list {
		out = append(out, list[i].status(in.step(&specs[i]), podStarted))
	}
	return out
}

func (p *Pod) initialized(in Input) bool {
	if p.started() {
		return true
	}
	for i := range p.init {
		if !initDone(&in.Pod.Spec.InitContainers[i], &p.init[i]) {
			return false
		}
	}
	return true
}

// phase computes the phase from the containers as a kubelet does: Pending until each has run once; then Running while
// one runs or may run again; then the result.
func (p *Pod) phase(initialized bool) v1.PodPhase {
	for i := range p.init {
		if p.init[i].phase == phaseExited && !p.init[i].ready {
			return v1.PodFailed
		}
	}
	if !initialized {
		return v1.PodPending
	}
	ended, failed := 0, 0
	for i := range p.main {
		c := &p.main[i]
		if c.attempts == 0 {
			return v1.PodPending
		}
		if c.phase == phaseExited {
			ended++
			if c.exit.ExitCode != 0 {
				failed++
			}
		}
	}
	switch {
	case ended < len(p.main):
		return v1.PodRunning
	case failed > 0:
		return v1.PodFailed
	default:
		return v1.PodSucceeded
	}
}

// conditions returns the conditions of a kubelet, in its order.
func (p *Pod) conditions(in Input, phase v1.PodPhase) []v1.PodCondition {
	containersReady := p.containersReady(in, phase)
	list := []v1.PodCondition{
		{Type: v1.PodReadyToStartContainers, Status: v1.ConditionTrue},
		p.initializedCondition(in),
		readyCondition(in, containersReady),
		containersReady,
	}
	for i := range list {
		list[i].ObservedGeneration = in.Pod.Generation
		list[i].LastTransitionTime = seconds(in.Now)
		if old := findCondition(in.Pod.Status.Conditions, list[i].Type); old != nil && old.Status == list[i].Status {
			list[i].LastTransitionTime = old.LastTransitionTime
		}
	}
	return list
}

func (p *Pod) initializedCondition(in Input) v1.PodCondition {
	var incomplete []string
	for i := range p.init {
		if spec := &in.Pod.Spec.InitContainers[i]; !initDone(spec, &p.init[i]) {
			incomplete = append(incomplete, spec.Name)
		}
	}
	if len(incomplete) == 0 || p.started() {
		return v1.PodCondition{Type: v1.PodInitialized, Status: v1.ConditionTrue}
	}
	return v1.PodCondition{
		Type: v1.PodInitialized, Status: v1.ConditionFalse, Reason: "ContainersNotInitialized",
		Message: fmt.Sprintf("containers with incomplete status: %s", incomplete),
	}
}

func (p *Pod) containersReady(in Input, phase v1.PodPhase) v1.PodCondition {
	cond := v1.PodCondition{Type: v1.ContainersReady, Status: v1.ConditionFalse}
	switch phase {
	case v1.PodSucceeded:
		cond.Reason = "PodCompleted"
		return cond
	case v1.PodFailed:
		cond.Reason = "PodFailed"
		return cond
	}
	var unready []string
	for i := range p.init {
		if spec := &in.Pod.Spec.InitContainers[i]; sidecar(spec) && !p.init[i].ready {
			unready = append(unready, spec.Name)
		}
	}
	for i := range p.main {
		if !p.main[i].ready {
			unready = append(unready, in.Pod.Spec.Containers[i].Name)
		}
	}
	if len(unready) > 0 {
		cond.Reason = "ContainersNotReady"
		cond.Message = fmt.Sprintf("containers with unready status: %s", unready)
		return cond
	}
	cond.Status = v1.ConditionTrue
	return cond
}

// readyCondition is computed from the containers and from the readiness gates, which other programs set.
func readyCondition(in Input, containersReady v1.PodCondition) v1.PodCondition {
	cond := containersReady
	cond.Type = v1.PodReady
	if cond.Status != v1.ConditionTrue {
		return cond
	}
	var missing []string
	for _, gate := range in.Pod.Spec.ReadinessGates {
		if c := findCondition(in.Pod.Status.Conditions, gate.ConditionType); c == nil || c.Status != v1.ConditionTrue {
			missing = append(missing, string(gate.ConditionType))
		}
	}
	old := findCondition(in.Pod.Status.Conditions, v1.PodReady)
	switch {
	case len(missing) > 0:
		cond.Status, cond.Reason = v1.ConditionFalse, "ReadinessGatesNotReady"
		cond.Message = "readiness gates that are not True: " + strings.Join(missing, ", ")
	case in.Node.Ready || old != nil && old.Status == v1.ConditionTrue:
	case old != nil && old.Reason == "":
		// As set by the node lifecycle controller.
		cond.Status = v1.ConditionFalse
	default:
		cond.Status, cond.Reason = v1.ConditionFalse, "NodeNotReady"
		cond.Message = "the containers are ready, the node is not"
	}
	return cond
}

func findCondition(list []v1.PodCondition, t v1.PodConditionType) *v1.PodCondition {
	for i := range list {
		if list[i].Type == t {
			return &list[i]
		}
	}
	return nil
}

// sameStatus reports whether the pod's status already has the fields of a kubelet.
func sameStatus(pod *v1.Pod, want *v1.PodStatus) bool {
	have := &pod.Status
	for i := range want.Conditions {
		old := findCondition(have.Conditions, want.Conditions[i].Type)
		if old == nil || !apiequality.Semantic.DeepEqual(*old, want.Conditions[i]) {
			return false
		}
	}
	return have.Phase == want.Phase &&
		have.ObservedGeneration == want.ObservedGeneration &&
		have.HostIP == want.HostIP &&
		have.PodIP == want.PodIP &&
		have.StartTime.Equal(want.StartTime) &&
		sameContainers(have.InitContainerStatuses, want.InitContainerStatuses) &&
		sameContainers(have.ContainerStatuses, want.ContainerStatuses)
}

func sameContainers(have, want []v1.ContainerStatus) bool {
	return len(have) == len(want) && (len(have) == 0 || apiequality.Semantic.DeepEqual(have, want))
}
