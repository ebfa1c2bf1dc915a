// SPDX-License-Identifier: Apache-2.0

package policyinput

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"everynode.dev/everynode/internal/clustercache"
)

// ScheduledAlike returns whether a node has room for a pod of one revision of a history wherever it has for one of another (policy.Input): it claims no more, and what else the scheduler reads of it is the same.
func ScheduledAlike(h *clustercache.Resolved) func(revision, as int) bool {
	more, known := ClaimsMore(h), map[[2]int]bool{}
	of := func(revision int) string {
		if revision < 0 || revision >= len(h.Entries) {
			return ""
		}
		return scheduling(h.Entries[revision].Template)
	}
	return func(revision, as int) bool {
		pair := [2]int{revision, as}
		alike, is := known[pair]
		if !is {
			a := of(revision)
			alike = a != "" && a == of(as) && !more(revision, as)
			known[pair] = alike
		}
		return alike
	}
}

// scheduling is what the scheduler reads of a template, except its resources; empty if it cannot be read.
func scheduling(template map[string]any) string {
	var typed corev1.PodTemplateSpec
	if template == nil || runtime.DefaultUnstructuredConverter.FromUnstructured(template, &typed) != nil {
		return ""
	}
	spec, ports, volumes := &typed.Spec, []corev1.ContainerPort{}, []corev1.Volume{}
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		for _, p := range c.Ports {
			if p.HostPort != 0 || spec.HostNetwork {
				ports = append(ports, corev1.ContainerPort{ContainerPort: p.ContainerPort, HostPort: p.HostPort, HostIP: p.HostIP, Protocol: p.Protocol})
			}
		}
	}
	for _, v := range spec.Volumes {
		if v.ConfigMap == nil && v.Secret == nil && v.EmptyDir == nil && v.HostPath == nil && v.Projected == nil && v.DownwardAPI == nil { // each node has those
			volumes = append(volumes, v)
		}
	}
	labels := map[string]string(nil) // those of a pod matter to the affinity of others, and to its own
	if spec.TopologySpreadConstraints != nil || spec.Affinity != nil && (spec.Affinity.PodAffinity != nil || spec.Affinity.PodAntiAffinity != nil) {
		labels = typed.Labels
	}
	all, err := text([]any{
		spec.SchedulerName, spec.NodeName, spec.NodeSelector, spec.Affinity, spec.Tolerations, spec.TopologySpreadConstraints, spec.HostNetwork, ports, volumes,
		spec.ResourceClaims, spec.SchedulingGates, spec.PreemptionPolicy, spec.OS, labels,
	})
	if err != nil {
		return ""
	}
	return all
}
