// SPDX-License-Identifier: Apache-2.0

package policyinput

import (
	"encoding/json"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/resource"

	"everynode.dev/everynode/internal/clustercache"
)

// ClaimsMore returns whether quotas count more of a pod of one revision of a history than of one of another (policy.Input). It computes that once, because a policy asks for each node that a quota refuses.
func ClaimsMore(h *clustercache.Resolved) func(revision, than int) bool {
	claims, known := map[int]*claim{}, map[[2]int]bool{}
	of := func(revision int) *claim {
		c, is := claims[revision]
		if !is && revision >= 0 && revision < len(h.Entries) { // a template may have no revision yet
			c = claimOf(h.Entries[revision].Template)
			claims[revision] = c
		}
		return c
	}
	return func(revision, than int) bool {
		pair := [2]int{revision, than}
		more, is := known[pair]
		if !is {
			a, b := of(revision), of(than)
			more = a == nil || b == nil || a.exceeds(b)
			known[pair] = more
		}
		return more
	}
}

// claim is what quotas count of a pod.
type claim struct {
	// scopes decides which quotas count the pod, and what the API server adds to its resources. bestEffort and affinity do too.
	scopes               string
	affinity             string
	bestEffort           bool
	requests, limits     corev1.ResourceList
	containers           map[kind]int
	requesting, limiting map[said]int
}

// kind is a kind of container: the resources of each kind add up in another way.
type kind string

// said is a resource that containers of a kind name. A LimitRange gives the others the resources of its defaults.
type said struct {
	kind     kind
	resource corev1.ResourceName
}

// claimOf returns the claim of a template; nil if it cannot be read.
func claimOf(template map[string]any) *claim {
	var typed corev1.PodTemplateSpec
	if template == nil || runtime.DefaultUnstructuredConverter.FromUnstructured(template, &typed) != nil {
		return nil
	}
	pod := &corev1.Pod{Spec: typed.Spec}
	spec := &pod.Spec
	c := &claim{containers: map[kind]int{}, requesting: map[said]int{}, limiting: map[said]int{}}
	for i := range spec.InitContainers {
		of := kind("init")
		if p := spec.InitContainers[i].RestartPolicy; p != nil {
			of = kind(*p)
		}
		c.add(of, &spec.InitContainers[i].Resources)
	}
	for i := range spec.Containers {
		c.add("", &spec.Containers[i].Resources)
	}
	if own := spec.Resources; own != nil {
		sum := resource.AggregateContainerRequests(pod, resource.PodResourcesOptions{})
		own.Requests = withDefaults(own.Requests, own.Limits, sum)
	}
	c.requests, c.limits = resource.PodRequests(pod, resource.PodResourcesOptions{}), resource.PodLimits(pod, resource.PodResourcesOptions{})
	c.bestEffort = true
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		c.bestEffort = c.bestEffort && c.requests.Name(name, "").IsZero() && c.limits.Name(name, "").IsZero()
	}
	var err error
	if c.scopes, err = text([]any{spec.PriorityClassName, spec.Priority, spec.RuntimeClassName, spec.ActiveDeadlineSeconds}); err != nil {
		return nil
	}
	if a := spec.Affinity; a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil) {
		if c.affinity, err = text([]any{a.PodAffinity, a.PodAntiAffinity}); err != nil {
			return nil
		}
	}
	return c
}

func text(of []any) (string, error) {
	data, err := json.Marshal(of)
	return string(data), err
}

// add counts a container, with the requests that the API server gives it: those that it does not name are its limits.
func (c *claim) add(of kind, r *corev1.ResourceRequirements) {
	r.Requests = withDefaults(r.Requests, r.Limits, nil)
	c.containers[of]++
	for name := range r.Requests {
		c.requesting[said{of, name}]++
	}
	for name := range r.Limits {
		c.limiting[said{of, name}]++
	}
}

// withDefaults are requests with the limits of the resources that neither they nor others have.
func withDefaults(requests, limits, others corev1.ResourceList) corev1.ResourceList {
	all := corev1.ResourceList{}
	maps.Copy(all, requests)
	for name, limit := range limits {
		_, has := all[name]
		if _, other := others[name]; !has && !other {
			all[name] = limit
		}
	}
	return all
}

// exceeds reports whether a quota may count more of a pod with this claim than of one with another.
func (c *claim) exceeds(other *claim) bool {
	if c.scopes != other.scopes || c.bestEffort != other.bestEffort || c.affinity != "" && c.affinity != other.affinity {
		return true
	}
	for of, n := range c.containers {
		if n > other.containers[of] {
			return true
		}
	}
	return above(c.requests, other.requests) || above(c.limits, other.limits) || c.silent(other, c.requesting, other.requesting) || c.silent(other, c.limiting, other.limiting)
}

func above(list, other corev1.ResourceList) bool {
	for name, quantity := range list {
		if quantity.Cmp(other[name]) > 0 {
			return true
		}
	}
	return false
}

// silent reports whether more containers do not name a resource, so that a LimitRange may give more of it to them.
func (c *claim) silent(other *claim, named, others map[said]int) bool {
	for s, n := range others { // of a resource that the other names nowhere, all its containers get the default
		if c.containers[s.kind]-named[s] > other.containers[s.kind]-n {
			return true
		}
	}
	return false
}
