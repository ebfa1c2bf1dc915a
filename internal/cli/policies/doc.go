// SPDX-License-Identifier: Apache-2.0

// Package policies reads the RolloutPolicies that apply to a set, with the rights of the user, and implements the command policy, which writes a new one.
//
// Rule: what cannot be read is an error that names the right or the missing CRD; a command that can do without a policy decides itself what that
// means (Optional).
package policies

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/resolver"
	"everynode.dev/everynode/internal/policy"
)

// Policy is a RolloutPolicy of the cluster.
type Policy struct {
	// Object is the policy as it was read, Typed the same as a type, and Rules what the manager reads from it.
	Object *unstructured.Unstructured
	Typed  *v1alpha1.RolloutPolicy
	Rules  *policy.Policy
}

// Resource is the resource of policies.
func Resource() schema.GroupVersionResource {
	return v1alpha1.GroupVersion().WithResource(v1alpha1.ResourcePolicies)
}

// ApprovalResource is the resource of approvals.
func ApprovalResource() schema.GroupVersionResource {
	return v1alpha1.GroupVersion().WithResource(v1alpha1.ResourceApprovals)
}

// ErrMissing is the error that the cluster has no rollout policies.
var ErrMissing = errors.New("this cluster has no rollout policies: install their CRDs with the chart or the install.yaml of this version")

// SetOf names a set as policies select it.
func SetOf(s *resolver.Set) policy.Set {
	return policy.Set{Advanced: s.Advanced(), Namespace: s.Namespace(), Name: s.Name(), Labels: s.Object.GetLabels()}
}

// from reads an object.
func from(object *unstructured.Unstructured) (*Policy, error) {
	typed := &v1alpha1.RolloutPolicy{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
		return nil, fmt.Errorf("reading rolloutpolicy %s/%s: %w", object.GetNamespace(), object.GetName(), err)
	}
	return &Policy{Object: object, Typed: typed, Rules: policy.Read(typed)}, nil
}

// Get returns the policy with that name in the namespace of the clients.
func Get(ctx context.Context, c *options.Clients, name string) (*Policy, error) {
	object, err := c.Dynamic.Resource(Resource()).Namespace(c.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case absent(c, err):
		return nil, ErrMissing
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("there is no rolloutpolicy/%s in namespace %s: see kubectl get rolloutpolicies, or name another namespace with -n", name, c.Namespace)
	case err != nil:
		return nil, options.Explain(err, options.Request{Verb: "get", Resource: Resource().GroupResource(), Namespace: c.Namespace, Name: name})
	}
	return from(object)
}

// absent reports whether an error means that the cluster does not have the CRDs.
func absent(c *options.Clients, err error) bool {
	return (apierrors.IsNotFound(err) || apierrors.IsForbidden(err)) && !resolver.Served(c, Resource())
}

// List returns the policies of a namespace.
func List(ctx context.Context, c *options.Clients, namespace string) ([]*Policy, error) {
	list, err := c.Dynamic.Resource(Resource()).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		if absent(c, err) {
			return nil, ErrMissing
		}
		return nil, options.Explain(err, options.Request{Verb: "list", Resource: Resource().GroupResource(), Namespace: namespace})
	}
	all := make([]*Policy, 0, len(list.Items))
	for i := range list.Items {
		p, err := from(&list.Items[i])
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *Policy) int { return strings.Compare(a.Typed.Name, b.Typed.Name) })
	return all, nil
}

// Of returns the policies that apply to a set, by name.
func Of(ctx context.Context, c *options.Clients, s *resolver.Set) ([]*Policy, error) {
	all, err := List(ctx, c, s.Namespace())
	return slices.DeleteFunc(all, func(p *Policy) bool { return !p.Rules.Selects(SetOf(s)) }), err
}

// Optional is Of for a command that shows a set also where policies cannot be read: then it returns the reason as text, or nothing if the cluster has no
// policies.
func Optional(ctx context.Context, c *options.Clients, s *resolver.Set) (all []*Policy, unread string) {
	all, err := Of(ctx, c, s)
	switch {
	case errors.Is(err, ErrMissing):
		return nil, ""
	case err != nil:
		return nil, fmt.Sprintf("it is not known whether a rollout policy applies to %s: %v", s, err)
	}
	return all, ""
}

// All is List for a command that shows sets also where policies cannot be read; see Optional.
func All(ctx context.Context, c *options.Clients, namespace string) (all []*Policy, unread string) {
	all, err := List(ctx, c, namespace)
	switch {
	case errors.Is(err, ErrMissing):
		return nil, ""
	case err != nil:
		return nil, fmt.Sprintf("it is not known whether rollout policies apply: %v", err)
	}
	return all, ""
}

// One returns the only policy that applies to a set.
func One(ctx context.Context, c *options.Clients, s *resolver.Set) (*Policy, error) {
	all, err := Of(ctx, c, s)
	switch {
	case err != nil:
		return nil, err
	case len(all) == 0:
		return nil, fmt.Errorf("no rollout policy applies to %s: write one with `%s policy init %s`, or add the set to spec.targets of an existing one",
			s.Title(), options.Program, s)
	case len(all) > 1:
		return nil, fmt.Errorf("more than one rollout policy applies to %s: %s; change spec.targets so that one remains", s.Title(), Names(all))
	}
	return all[0], nil
}

// Names lists the names of policies.
func Names(all []*Policy) string {
	names := make([]string, 0, len(all))
	for _, p := range all {
		names = append(names, p.Typed.Name)
	}
	return strings.Join(names, ", ")
}

// Status returns what the policy reports of a set; nil for nothing.
func (p *Policy) Status(s *resolver.Set) *v1alpha1.SetStatus {
	version := SetOf(s).APIVersion()
	for i := range p.Typed.Status.Sets {
		if st := &p.Typed.Status.Sets[i]; st.Name == s.Name() && st.APIVersion == version {
			return st
		}
	}
	return nil
}

// Sets are the sets that the status of the policy names, as users name them in commands.
func (p *Policy) Sets() []string {
	names := make([]string, 0, len(p.Typed.Status.Sets))
	for i := range p.Typed.Status.Sets {
		kind := "daemonset/"
		if strings.HasPrefix(p.Typed.Status.Sets[i].APIVersion, "apps.kruise.io/") {
			kind = "ads/"
		}
		names = append(names, kind+p.Typed.Status.Sets[i].Name)
	}
	return names
}

// Wave returns the wave with that name of the specification, and the path of its field; nil for none.
func (p *Policy) Wave(name string) (*v1alpha1.Wave, string) {
	for i := range p.Typed.Spec.Waves {
		if w := &p.Typed.Spec.Waves[i]; w.Name == name {
			return w, fmt.Sprintf("spec.waves[%d]", i)
		}
	}
	return nil, ""
}

// String is the policy as kubectl names it.
func (p *Policy) String() string { return "rolloutpolicy/" + p.Typed.Name }

// Approvals returns the approvals of a namespace, the oldest first.
func Approvals(ctx context.Context, c *options.Clients, namespace string) ([]v1alpha1.RolloutApproval, error) {
	list, err := c.Dynamic.Resource(ApprovalResource()).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		if absent(c, err) {
			return nil, ErrMissing
		}
		return nil, options.Explain(err, options.Request{Verb: "list", Resource: ApprovalResource().GroupResource(), Namespace: namespace})
	}
	all := make([]v1alpha1.RolloutApproval, len(list.Items))
	for i := range list.Items {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &all[i]); err != nil {
			return nil, fmt.Errorf("reading rolloutapproval %s/%s: %w", namespace, list.Items[i].GetName(), err)
		}
	}
	slices.SortStableFunc(all, func(a, b v1alpha1.RolloutApproval) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return all, nil
}

// Recall returns approvals with their states from the status of the policy, if the manager could not write the states into the approvals.
func (p *Policy) Recall(approvals []v1alpha1.RolloutApproval) []v1alpha1.RolloutApproval {
	all := slices.Clone(approvals)
	for i := range all {
		for _, d := range p.Typed.Status.Decisions {
			if a := &all[i]; a.Status.State == "" && a.UID == d.UID && a.Spec.Policy == p.Typed.Name {
				a.Status = d.RolloutApprovalStatus
			}
		}
	}
	return all
}
