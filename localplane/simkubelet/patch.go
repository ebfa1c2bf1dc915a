// SPDX-License-Identifier: Apache-2.0

package simkubelet

import (
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
)

// statusPatch returns a strategic merge patch of the changed fields. It contains the UID, so that it never applies to
// another pod of the same name, and only conditions of a kubelet.
func statusPatch(pod *v1.Pod, want *v1.PodStatus) ([]byte, error) {
	have := &pod.Status
	var status patchStatus
	status.ObservedGeneration = want.ObservedGeneration
	if have.Phase != want.Phase {
		status.Phase = want.Phase
	}
	if have.HostIP != want.HostIP || have.PodIP != want.PodIP || !have.StartTime.Equal(want.StartTime) {
		status.StartTime = want.StartTime
		status.HostIP, status.HostIPs = want.HostIP, want.HostIPs
		status.PodIP, status.PodIPs = want.PodIP, want.PodIPs
	}
	if !sameContainers(have.InitContainerStatuses, want.InitContainerStatuses) {
		status.InitContainerStatuses = want.InitContainerStatuses
	}
	if !sameContainers(have.ContainerStatuses, want.ContainerStatuses) {
		status.ContainerStatuses = want.ContainerStatuses
	}
	for i := range want.Conditions {
		c := &want.Conditions[i]
		if old := findCondition(have.Conditions, c.Type); old == nil || !apiequality.Semantic.DeepEqual(*old, *c) {
			status.Conditions = append(status.Conditions, newPatchCondition(c))
		}
	}
	raw, err := json.Marshal(patchPod{Metadata: patchMeta{UID: pod.UID}, Status: status})
	if err != nil {
		return nil, fmt.Errorf("encoding the status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return raw, nil
}

type patchPod struct {
	Metadata patchMeta   `json:"metadata"`
	Status   patchStatus `json:"status"`
}

type patchMeta struct {
	UID types.UID `json:"uid"`
}

// patchStatus is a pod status with conditions that can have empty fields.
type patchStatus struct {
	v1.PodStatus
	Conditions []patchCondition `json:"conditions,omitempty"`
}

// patchCondition has no omitempty on the fields that must be reset: a merge would keep the old reason.
type patchCondition struct {
	v1.PodCondition
	Reason  *string `json:"reason"`
	Message *string `json:"message"`
}

func newPatchCondition(c *v1.PodCondition) patchCondition {
	p := patchCondition{PodCondition: *c}
	if c.Reason != "" {
		p.Reason = &c.Reason
	}
	if c.Message != "" {
		p.Message = &c.Message
	}
	return p
}
