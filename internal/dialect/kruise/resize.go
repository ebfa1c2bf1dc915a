// SPDX-License-Identifier: Apache-2.0

package kruise

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/base"
)

// resizable are the resources whose amounts can be changed while a container runs.
func resizable() [2]corev1.ResourceName {
	return [2]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}
}

// stripAmounts removes the changeable amounts of resources from the spec of a template, and the fields that become empty.
func stripAmounts(spec map[string]any) {
	items, _ := spec["containers"].([]any)
	inits, _ := spec["initContainers"].([]any)
	for _, item := range slices.Concat(items, slices.DeleteFunc(slices.Clone(inits), notSidecar)) {
		c, _ := item.(map[string]any)
		resources, _ := c["resources"].(map[string]any)
		for _, kind := range []string{"limits", "requests"} {
			amounts, _ := resources[kind].(map[string]any)
			for _, name := range resizable() {
				delete(amounts, string(name))
			}
			if len(amounts) == 0 {
				delete(resources, kind)
			}
		}
		if len(resources) == 0 {
			delete(c, "resources")
		}
	}
}

// notSidecar reports whether an init container of a template ends before the others start: its resources cannot be changed.
func notSidecar(container any) bool {
	c, _ := container.(map[string]any)
	return c["restartPolicy"] != string(corev1.ContainerRestartPolicyAlways)
}

// podSpec is the spec of a template; what cannot be decoded was refused when it was new.
func podSpec(template map[string]any) *corev1.PodSpec {
	spec := &corev1.PodSpec{}
	if base.Decode(template["spec"], spec) != nil {
		return &corev1.PodSpec{}
	}
	return spec
}

// amounts are the resources of a container as the API server completes them: a container with a limit and no request requests that much.
func amounts(c *corev1.Container) corev1.ResourceRequirements {
	r := *c.Resources.DeepCopy()
	for name, limit := range r.Limits {
		if _, set := r.Requests[name]; !set {
			if r.Requests == nil {
				r.Requests = corev1.ResourceList{}
			}
			r.Requests[name] = limit
		}
	}
	return r
}

// changedResources are the wanted resources of those containers whose cpu or memory differs between two templates.
func changedResources(from, to map[string]any) map[string]corev1.ResourceRequirements {
	before, after := podSpec(from), podSpec(to)
	var differ map[string]corev1.ResourceRequirements
	for c := range LongRunning(after) {
		b := longRunning(before, c.Name)
		if b == nil {
			continue
		}
		was, want := amounts(b), amounts(c)
		if covers(was, want) && covers(want, was) {
			continue
		}
		if differ == nil {
			differ = map[string]corev1.ResourceRequirements{}
		}
		differ[c.Name] = want
	}
	return differ
}

// longRunning is the container or sidecar of that name; nil if there is none.
func longRunning(spec *corev1.PodSpec, name string) *corev1.Container {
	for c := range LongRunning(spec) {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// covers reports whether have has the same amounts of cpu and memory as want, for each amount that want names.
func covers(have, want corev1.ResourceRequirements) bool {
	return coversList(have.Limits, want.Limits) && coversList(have.Requests, want.Requests)
}

func coversList(have, want corev1.ResourceList) bool {
	for _, name := range resizable() {
		if amount, wanted := want[name]; wanted {
			if there, ok := have[name]; !ok || there.Cmp(amount) != 0 {
				return false
			}
		}
	}
	return true
}

// canResize reports whether the API server lets a pod of template from have the resources of template to
// while it runs: no amount is removed without a replacement, the class of the pod's quality of service stays,
// and no resources are set for the pod as a whole.
func canResize(from, to map[string]any) bool {
	before, after := podSpec(from), podSpec(to)
	if before.Resources != nil || after.Resources != nil || qualityOf(before) != qualityOf(after) {
		return false
	}
	for b := range LongRunning(before) {
		c := longRunning(after, b.Name)
		if c == nil {
			return false
		}
		was, want := amounts(b), amounts(c)
		if loses(was.Limits, want.Limits) || loses(was.Requests, want.Requests) {
			return false
		}
	}
	return true
}

// readsAmounts reports whether an environment variable reads the resources of a container that change.
func readsAmounts(template map[string]any, resized map[string]corev1.ResourceRequirements) bool {
	spec := podSpec(template)
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			for _, e := range list[i].Env {
				if e.ValueFrom == nil || e.ValueFrom.ResourceFieldRef == nil {
					continue
				}
				if _, changes := resized[cmp.Or(e.ValueFrom.ResourceFieldRef.ContainerName, list[i].Name)]; changes {
					return true
				}
			}
		}
	}
	return false
}

func loses(was, want corev1.ResourceList) bool {
	for name := range was {
		if _, kept := want[name]; !kept {
			return true
		}
	}
	return false
}

// qualityOf is the class of the quality of service that a pod has: BestEffort when no container asks for cpu or memory, Guaranteed
// when all have limits for both and request no less.
func qualityOf(spec *corev1.PodSpec) corev1.PodQOSClass {
	asks, guaranteed := false, true
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			r := amounts(&list[i])
			for _, name := range resizable() {
				limit, request := r.Limits[name], r.Requests[name]
				asks = asks || !limit.IsZero() || !request.IsZero()
				guaranteed = guaranteed && !limit.IsZero() && limit.Cmp(request) == 0
			}
		}
	}
	switch {
	case !asks:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	default:
		return corev1.PodQOSBurstable
	}
}

// resizeEdit gives containers and sidecars of p the wanted amounts of cpu and memory; differs is false when they have them.
func resizeEdit(p *corev1.Pod, wanted map[string]corev1.ResourceRequirements) (e dialect.Edit, differs bool) {
	spec := map[string]any{}
	for field, list := range map[string][]corev1.Container{"initContainers": p.Spec.InitContainers, "containers": p.Spec.Containers} {
		if differ := resizing(list, wanted); len(differ) > 0 {
			spec[field] = differ
		}
	}
	if len(spec) == 0 {
		return dialect.Edit{}, false
	}
	return edit(map[string]any{"metadata": map[string]any{"uid": p.UID}, "spec": spec}, dialect.Resize), true
}

// resizing are the containers of a list that get other amounts.
func resizing(list []corev1.Container, wanted map[string]corev1.ResourceRequirements) (differ []any) {
	for i := range list {
		want, ok := wanted[list[i].Name]
		if !ok || covers(list[i].Resources, want) {
			continue
		}
		differ = append(differ, map[string]any{"name": list[i].Name, "resources": map[string]any{
			"limits": only(want.Limits), "requests": only(want.Requests),
		}})
	}
	return differ
}

// only are the amounts of what can be changed.
func only(list corev1.ResourceList) map[string]resource.Quantity {
	some := map[string]resource.Quantity{}
	for _, name := range resizable() {
		if amount, ok := list[name]; ok {
			some[string(name)] = amount
		}
	}
	return some
}

// resized reports whether the node has applied the wanted resources to all containers of p, and reports no outstanding resize.
func resized(p *corev1.Pod) bool {
	for _, kind := range []corev1.PodConditionType{corev1.PodResizePending, corev1.PodResizeInProgress} {
		if c := condition(p, kind); c != nil && c.Status == corev1.ConditionTrue {
			return false
		}
	}
	for c := range LongRunning(&p.Spec) {
		if s := statusOf(p, c.Name); s == nil || !given(c.Resources, s.Resources) {
			return false
		}
	}
	return true
}

// given reports whether a container has the wanted resources. A node of an older version reports no resources; there the conditions, and that it
// has seen the pod's newest generation, must be enough.
func given(want corev1.ResourceRequirements, have *corev1.ResourceRequirements) bool {
	return have == nil || covers(*have, want)
}

// infeasible reports whether the node reports that it can never provide the wanted resources of the pod.
func infeasible(p *corev1.Pod, state *kruise.InPlaceState) bool {
	c := condition(p, corev1.PodResizePending)
	return state != nil && state.UpdateResources && c != nil && c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonInfeasible &&
		(c.ObservedGeneration == 0 || c.ObservedGeneration >= p.Generation)
}

// resizeTrouble is why the node has not given a pod the wanted resources, as far as it says that; empty if it does not.
func resizeTrouble(p *corev1.Pod, state *kruise.InPlaceState) string {
	if state == nil || !state.UpdateResources {
		return ""
	}
	for _, kind := range []corev1.PodConditionType{corev1.PodResizePending, corev1.PodResizeInProgress} {
		c := condition(p, kind)
		if c == nil || c.Status != corev1.ConditionTrue || c.Reason == "" || c.ObservedGeneration != 0 && c.ObservedGeneration < p.Generation {
			continue
		}
		message, _, _ := strings.Cut(c.Message, ", requested: ") // the amounts that follow change with other pods of the node
		return "the node has not changed the resources" + shown(c.Reason, message)
	}
	return ""
}

// resizePending reports whether an earlier change of resources has not arrived yet, which a change that supersedes it must wait for too.
func resizePending(p *corev1.Pod) bool {
	state, _ := stateOf(p)
	return state != nil && state.UpdateResources && (state.GateOpen || condition(p, kruise.InPlaceUpdateReady) != nil) && !resized(p)
}
