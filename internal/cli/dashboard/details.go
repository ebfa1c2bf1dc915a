// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/policies"
)

const (
	// detailsPace is how long the details of a set are shown before they are read again; detailsPatience is the timeout of the read.
	detailsPace     = 5 * time.Second
	detailsPatience = 5 * time.Second
	// mostEvents is the maximum number of events that are shown.
	mostEvents = 50
)

// condition is a condition of a set or of a node.
type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Since   string `json:"since,omitempty"`
	// Of is the object that has it; empty for the one that the page is about.
	Of string `json:"of,omitempty"`
}

// details are read for a page only.
type details struct {
	Conditions []condition     `json:"conditions"`
	Events     []inspect.Event `json:"events"`
	// EventsSay is which events these are; empty if they are all.
	EventsSay string `json:"eventsSay,omitempty"`
	// Paused reports whether the set itself is paused, Containers are those of its template, and Partition is its partition.
	Paused     bool        `json:"paused"`
	Containers []container `json:"containers"`
	Partition  string      `json:"partition,omitempty"`
	// Selector selects the nodes of a canary; it is empty without one.
	Selector string `json:"selector,omitempty"`
	// Hook reports whether the set has a preDelete hook.
	Hook bool `json:"hook,omitempty"`
	// Policy is the specification of the first policy that applies.
	Policy *v1alpha1.RolloutPolicySpec `json:"policy,omitempty"`
	// Closed are the times in which that policy lets no update start; nil if it has neither windows nor freezes.
	Closed *closedTimes `json:"closed,omitempty"`
	// PolicyText is that policy as YAML; without one it is a new policy, as policy init writes it.
	PolicyText string `json:"policyText"`
	// Errors are about what cannot be read.
	Errors []string `json:"errors,omitempty"`
}

// container is a container of a template.
type container struct {
	Name  string `json:"name"`
	Image string `json:"image"`
	// Init reports whether it is an init container.
	Init bool `json:"init,omitempty"`
}

// readDetails reads with the rights of the user.
func readDetails(ctx context.Context, s *server, m *inspect.Evaluation) *details {
	ctx, cancel := context.WithTimeout(ctx, detailsPatience)
	defer cancel()
	d := &details{Conditions: []condition{}, Events: []inspect.Event{}, Containers: []container{}}
	if p := m.Governance.Policy(); p != nil {
		d.Policy = &p.Typed.Spec
	}
	d.PolicyText, d.Closed = policyText(m), closedOf(m, s.o.Now())
	object, err := s.clients.Dynamic.Resource(m.Set.Resource).Namespace(m.Set.Namespace()).Get(ctx, m.Set.Name(), metav1.GetOptions{})
	if err != nil {
		d.Errors = append(d.Errors, options.PageText(options.Explain(err, options.Request{
			Verb: "get", Resource: m.Set.Resource.GroupResource(), Namespace: m.Set.Namespace(), Name: m.Set.Name(),
		})))
	} else {
		d.take(object.Object)
	}
	d.takePolicies(m)
	if list, err := inspect.Events(ctx, s.clients, m.Set, mostEvents); err != nil {
		d.Errors = append(d.Errors, options.PageText(err))
	} else {
		d.Events, d.EventsSay = list.Events, list.String()
	}
	return d
}

// takePolicies reads the conditions of the policies that apply: a DaemonSet of apps/v1 has none of its own.
func (d *details) takePolicies(m *inspect.Evaluation) {
	for _, p := range m.Governance.Policies {
		for i := range p.Typed.Status.Conditions {
			c := &p.Typed.Status.Conditions[i]
			d.Conditions = append(d.Conditions, condition{c.Type, string(c.Status), c.Reason, c.Message, c.LastTransitionTime.UTC().Format(time.RFC3339), "rolloutpolicy/" + p.Typed.Name})
		}
	}
}

// take reads the object of a set.
func (d *details) take(object map[string]any) {
	conditions, _, _ := unstructured.NestedSlice(object, "status", "conditions")
	for _, one := range conditions {
		fields, _ := one.(map[string]any)
		text := func(name string) string {
			value, _ := fields[name].(string)
			return value
		}
		d.Conditions = append(d.Conditions, condition{text("type"), text("status"), text("reason"), text("message"), text("lastTransitionTime"), ""})
	}
	d.Paused, _, _ = unstructured.NestedBool(object, "spec", "updateStrategy", "rollingUpdate", "paused")
	if value, has, _ := unstructured.NestedFieldNoCopy(object, "spec", "updateStrategy", "rollingUpdate", "partition"); has {
		d.Partition = fmt.Sprint(value)
	}
	if selector, has, _ := unstructured.NestedMap(object, "spec", "updateStrategy", "rollingUpdate", "selector"); has && len(selector) > 0 {
		d.Selector = selectorText(selector)
	}
	hook, _, _ := unstructured.NestedMap(object, "spec", "lifecycle", "preDelete")
	d.Hook = len(hook) > 0
	for _, list := range []string{"containers", "initContainers"} {
		containers, _, _ := unstructured.NestedSlice(object, "spec", "template", "spec", list)
		for _, one := range containers {
			fields, _ := one.(map[string]any)
			name, _ := fields["name"].(string)
			image, _ := fields["image"].(string)
			d.Containers = append(d.Containers, container{name, image, list == "initContainers"})
		}
	}
}

// selectorText is a selector as it is typed; empty for one that cannot be read.
func selectorText(selector map[string]any) string {
	typed := &metav1.LabelSelector{}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(selector, typed) != nil {
		return ""
	}
	parsed, err := metav1.LabelSelectorAsSelector(typed)
	if err != nil {
		return ""
	}
	return parsed.String()
}

// policyText is the policy of a set as YAML, or a new one.
func policyText(m *inspect.Evaluation) string {
	if len(m.Governance.Policies) == 0 {
		return policies.Manifest(m.Set)
	}
	typed := m.Governance.Policies[0].Typed
	data, err := yaml.Marshal(map[string]any{
		"apiVersion": v1alpha1.GroupVersion().String(), "kind": v1alpha1.KindPolicy,
		"metadata": map[string]string{"name": typed.Name, "namespace": typed.Namespace}, "spec": typed.Spec,
	})
	if err != nil {
		return "# " + err.Error()
	}
	return string(data)
}

// nodeDetails are about a node, whatever sets run there.
type nodeDetails struct {
	Exists     bool              `json:"exists"`
	Conditions []condition       `json:"conditions"`
	Labels     map[string]string `json:"labels,omitempty"`
	Taints     []string          `json:"taints,omitempty"`
	Cordoned   bool              `json:"cordoned,omitempty"`
	Version    string            `json:"version,omitempty"`
	// Pods are those on the node, of a namespace or of all.
	Pods  []podDetails `json:"pods"`
	Error string       `json:"error,omitempty"`
}

// podDetails are what a cell does not have.
type podDetails struct {
	Namespace  string      `json:"namespace"`
	Name       string      `json:"name"`
	Owner      string      `json:"owner"`
	Phase      string      `json:"phase"`
	Containers []podStatus `json:"containers"`
	// owner is the UID of the set: sets of both kinds may have the same name.
	owner types.UID
}

// podStatus is a container of a pod.
type podStatus struct {
	container
	Ready    bool   `json:"ready"`
	Restarts int32  `json:"restarts"`
	State    string `json:"state"`
}

// readNode reads a node and its pods of daemon sets.
func (s *server) readNode(ctx context.Context, name, namespace string) *nodeDetails {
	ctx, cancel := context.WithTimeout(ctx, detailsPatience)
	defer cancel()
	d := &nodeDetails{Conditions: []condition{}, Pods: []podDetails{}}
	node, err := s.clients.Kubernetes.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil:
		d.takeNode(node)
	case !apierrors.IsNotFound(err): // sets may have pods of a node that was deleted
		d.Error = options.PageText(options.Explain(err, options.Request{Verb: "get", Resource: corev1.Resource("nodes"), Name: name}))
	}
	selector := fields.OneTermEqualSelector("spec.nodeName", name).String()
	pods, err := s.clients.Kubernetes.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: selector})
	if err != nil {
		d.Error = options.PageText(options.Explain(err, options.Request{Verb: "list", Resource: corev1.Resource("pods"), Namespace: namespace}))
		return d
	}
	for i := range pods.Items {
		if owner := metav1.GetControllerOf(&pods.Items[i]); owner != nil && owner.Kind == "DaemonSet" && pods.Items[i].Spec.NodeName == name {
			d.Pods = append(d.Pods, podOf(&pods.Items[i], owner))
		}
	}
	return d
}

func (d *nodeDetails) takeNode(node *corev1.Node) {
	d.Exists, d.Labels, d.Cordoned, d.Version = true, node.Labels, node.Spec.Unschedulable, node.Status.NodeInfo.KubeletVersion
	for i := range node.Spec.Taints {
		d.Taints = append(d.Taints, node.Spec.Taints[i].ToString())
	}
	for i := range node.Status.Conditions {
		c := &node.Status.Conditions[i]
		d.Conditions = append(d.Conditions, condition{string(c.Type), string(c.Status), c.Reason, c.Message, c.LastTransitionTime.UTC().Format(time.RFC3339), ""})
	}
}

func podOf(p *corev1.Pod, owner *metav1.OwnerReference) podDetails {
	d := podDetails{Namespace: p.Namespace, Name: p.Name, Owner: owner.Name, owner: owner.UID, Phase: string(p.Status.Phase), Containers: []podStatus{}}
	d.take(p.Spec.InitContainers, p.Status.InitContainerStatuses, true)
	d.take(p.Spec.Containers, p.Status.ContainerStatuses, false)
	return d
}

// take reads containers of a pod with their statuses.
func (d *podDetails) take(containers []corev1.Container, statuses []corev1.ContainerStatus, first bool) {
	for i := range containers {
		s := podStatus{container: container{containers[i].Name, containers[i].Image, first}, State: "not started"}
		for j := range statuses {
			if status := &statuses[j]; status.Name == s.Name {
				s.Ready, s.Restarts, s.State = status.Ready, status.RestartCount, stateOf(status)
			}
		}
		d.Containers = append(d.Containers, s)
	}
}

func stateOf(s *corev1.ContainerStatus) string {
	switch {
	case s.State.Waiting != nil && s.State.Waiting.Message != "":
		return "waiting: " + s.State.Waiting.Reason + ": " + s.State.Waiting.Message
	case s.State.Waiting != nil:
		return "waiting: " + s.State.Waiting.Reason
	case s.State.Terminated != nil:
		return "ended: " + s.State.Terminated.Reason
	case s.State.Running != nil:
		return "running"
	default:
		return "not started"
	}
}
