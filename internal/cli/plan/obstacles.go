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

// obstacles are why no new pod comes to run, on whatever node.
type obstacles struct {
	// class is the priority class of new pods, as far as it can be read, and noClass the name of one that is not there.
	class   *schedulingv1.PriorityClass
	noClass string
	// noRoom says what new pods request that no node has.
	noRoom string
	// ports are those of a node that old and new pods both want: a new pod does not start beside an old one, and does in its place.
	ports []string
}

// beside says why a new pod does not start beside an old one; empty where it does.
func (h *obstacles) beside() string {
	if len(h.ports) == 0 {
		return ""
	}
	return "old and new pods both need " + strings.Join(h.ports, ", ") + " of the node"
}

// text says it in words; empty where a new pod may come to run.
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

// classOf is the priority class that a template names.
func classOf(template map[string]any) string {
	name, _ := nested(template, "spec")["priorityClassName"].(string)
	return name
}

// tooLarge says which requests of a template are larger than what any node has to give, as "cpu 64 (the most is 8)". Nodes that do not say what
// they have are left out, and so is a resource of others that no node names: a class of devices may stand for it (DRA), of which nodes say nothing.
func tooLarge(template map[string]any, nodes []corev1.Node) string {
	pod := &corev1.PodTemplateSpec{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(template, pod); err != nil {
		return "" // the server says what is wrong with it
	}
	var all []string
	for name, wanted := range resourcehelper.PodRequests(&corev1.Pod{Spec: pod.Spec}, resourcehelper.PodResourcesOptions{}) {
		if most, told := largest(nodes, name); told && wanted.Cmp(most) > 0 {
			all = append(all, fmt.Sprintf("%s %s (the most is %s)", name, wanted.String(), most.String()))
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// largest is the most of a resource that any node has to give; told is whether that can be relied on: a node names it, or it is one of Kubernetes
// itself and any node says what it has.
func largest(nodes []corev1.Node, name corev1.ResourceName) (most resource.Quantity, told bool) {
	for i := range nodes {
		has := nodes[i].Status.Allocatable
		quantity, named := has[name]
		if quantity.Cmp(most) > 0 {
			most = quantity
		}
		told = told || named || native(name) && len(has) > 0
	}
	return most, told
}

// native is whether a resource is one of Kubernetes itself: its name has no domain, or one of kubernetes.io.
func native(name corev1.ResourceName) bool {
	domain, _, has := strings.Cut(string(name), "/")
	return !has || domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io")
}

// warnRoom: pods that request more than any node has stay pending everywhere.
func (f *prediction) warnRoom() []Warning {
	if f.obstacles.noRoom == "" {
		return nil
	}
	return []Warning{{Kind: warnRoom, Message: fmt.Sprintf(
		"new pods request %s: they stay pending on every node; lower resources.requests of the template", f.obstacles.noRoom)}}
}
