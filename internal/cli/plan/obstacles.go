// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	resourcehelper "k8s.io/component-helpers/resource"

	"everynode.dev/everynode/internal/cli/options"
)

// obstacles are reasons why new pods cannot run on any node.
type obstacles struct {
	// class is the priority class of new pods, if it can be read; noClass is the name of one that does not exist.
	class   *schedulingv1.PriorityClass
	noClass string
	// noRoom lists the resource requests of new pods that no node can satisfy.
	noRoom string
	// ports are the host ports that both old and new pods need: a new pod cannot start next to an old one, but it can
	// replace it.
	ports []string
}

// surgeObstacle returns why a new pod cannot start next to an old one, or "".
func (h *obstacles) surgeObstacle() string {
	if len(h.ports) == 0 {
		return ""
	}
	return "old and new pods both need " + strings.Join(h.ports, ", ") + " of the node"
}

// text returns the obstacles as text, or "" if there are none.
func (h *obstacles) text() string {
	switch {
	case h.noClass != "":
		return "there is no priority class " + h.noClass
	case h.noRoom != "":
		return "no node has " + h.noRoom
	default:
		return ""
	}
}

func (f *prediction) findObstacles(ctx context.Context, c *options.Clients) obstacles {
	h := obstacles{noRoom: tooLarge(f.is, f.nodes), ports: shared(f.was, f.is)}
	name := classOf(f.is)
	if name == "" {
		return h
	}
	class, err := c.Kubernetes.SchedulingV1().PriorityClasses().Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil:
		h.class = class
	case apierrors.IsNotFound(err):
		h.noClass = name
	}
	return h
}

// classOf returns the priority class of a template.
func classOf(template map[string]any) string {
	name, _ := nested(template, "spec")["priorityClassName"].(string)
	return name
}

// tooLarge returns the requests of a template that exceed the allocatable resources of every node, as "cpu 64 (the most
// is 8)". It ignores nodes that report no resources, and extended resources that no node reports, because a device
// class may provide them (DRA).
func tooLarge(template map[string]any, nodes []corev1.Node) string {
	pod := &corev1.PodTemplateSpec{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(template, pod); err != nil {
		return "" // the server reports the error
	}
	var all []string
	for name, wanted := range resourcehelper.PodRequests(&corev1.Pod{Spec: pod.Spec}, resourcehelper.PodResourcesOptions{}) {
		if most, ok := largest(nodes, name); ok && wanted.Cmp(most) > 0 {
			all = append(all, fmt.Sprintf("%s %s (the most is %s)", name, wanted.String(), most.String()))
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// largest returns the largest allocatable amount of a resource of any node. ok reports whether the amount is
// reliable: a node reports the resource, or it is a native resource and some node reports resources.
func largest(nodes []corev1.Node, name corev1.ResourceName) (most resource.Quantity, ok bool) {
	for i := range nodes {
		has := nodes[i].Status.Allocatable
		quantity, named := has[name]
		if quantity.Cmp(most) > 0 {
			most = quantity
		}
		ok = ok || named || native(name) && len(has) > 0
	}
	return most, ok
}

// native reports whether a resource is defined by Kubernetes: its name has no domain, or a kubernetes.io domain.
func native(name corev1.ResourceName) bool {
	domain, _, has := strings.Cut(string(name), "/")
	return !has || domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io")
}

// warnRoom warns if pods request more than any node has: they stay pending everywhere.
func (f *prediction) warnRoom() []Warning {
	if f.obstacles.noRoom == "" {
		return nil
	}
	return []Warning{{Kind: warnRoom, Message: fmt.Sprintf(
		"new pods request %s: they stay pending on every node; lower resources.requests of the template", f.obstacles.noRoom)}}
}
