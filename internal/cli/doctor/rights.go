// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/policies"
	"everynode.dev/everynode/internal/cli/resolver"
	"everynode.dev/everynode/internal/dialects"
	"everynode.dev/everynode/internal/rbac"
)

// rights checks each right that the manager needs.
func (p *installation) rights(ctx context.Context) []Finding {
	account := managerName
	switch {
	case p.manager != nil:
		account = p.manager.Spec.Template.Spec.ServiceAccountName
	case !p.inside:
		return nil
	}
	user := "system:serviceaccount:" + p.namespace + ":" + account
	var missing []string
	var unread []rbac.Call
	asked := 0
	for _, call := range p.needed() {
		allowed, err := p.allowed(ctx, user, call)
		if err != nil {
			return []Finding{unreadable(err, accessReviews())}
		}
		if asked++; !allowed {
			missing = append(missing, text(call))
			if readsPolicies(call) {
				unread = append(unread, call)
			}
		}
	}
	unbound, err := p.holdingRight(ctx, user, account)
	switch {
	case err != nil:
		return []Finding{unreadable(err, accessReviews())}
	case len(missing) == 0 && len(unbound) == 0:
		return []Finding{ok("%s has all of its %d rights", user, asked)}
	case len(missing) == 0:
		return unbound
	}
	const few = 5
	shown := strings.Join(missing[:min(few, len(missing))], ", ")
	if more := len(missing) - few; more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	findings := []Finding{failed("apply the roles of the version that runs (docs/reference/rights.md lists them)", "%s may not: %s", user, shown)}
	if len(unread) > 0 && resolver.Served(p.c, policies.Resource()) {
		findings = append(findings, failed(
			"apply the ClusterRole everynode-manager of the version that runs, or delete the CRDs of rollout policies if you do not use them",
			"the manager cannot read rollout policies (it may not %s), so it starts no update of any daemon set; missing pods are still created", text(unread[0])))
	}
	return append(findings, unbound...)
}

// accessReviews is the request of a check that needs a right itself.
func accessReviews() options.Request {
	return options.Request{Verb: "create", Resource: schema.GroupResource{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"}}
}

// allowed asks the API server whether a user may make a call; inside, the user is the one who asks, which needs no right.
func (p *installation) allowed(ctx context.Context, user string, call rbac.Call) (bool, error) {
	authorization := p.c.Kubernetes.AuthorizationV1()
	if p.inside {
		own := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes(call)}}
		answer, err := authorization.SelfSubjectAccessReviews().Create(ctx, own, metav1.CreateOptions{})
		if err != nil {
			return false, err
		}
		return answer.Status.Allowed, nil
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + p.namespace, "system:authenticated"},
		ResourceAttributes: attributes(call),
	}}
	answer, err := authorization.SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return answer.Status.Allowed, nil
}

// readsPolicies reports whether the manager cannot know without a call which rollout policies and approvals there are.
func readsPolicies(c rbac.Call) bool {
	return c.Group == v1alpha1.Group && (c.Resource == v1alpha1.ResourcePolicies || c.Resource == v1alpha1.ResourceApprovals) && (c.Verb == "list" || c.Verb == "watch")
}

// needed returns the calls that the manager makes for the dialects that it serves.
func (p *installation) needed() []rbac.Call {
	var calls []rbac.Call
	roles := rbac.OfManager()
	for _, r := range dialects.Served(p.settings.dialects) {
		roles = append(roles, r.Roles...)
	}
	for _, role := range roles {
		if role.BoundBy != "" {
			continue
		}
		namespace := role.Namespace
		if namespace == everynode.Namespace {
			namespace = p.namespace
		}
		for _, rule := range role.Rules {
			for _, verb := range rule.Verbs {
				call := rbac.Call{Verb: verb, Group: rule.Group, Resource: rule.Resource, Namespace: namespace}
				for _, name := range rule.Names {
					call.Name = name
					calls = append(calls, call)
				}
				if len(rule.Names) == 0 {
					calls = append(calls, call)
				}
			}
		}
	}
	return calls
}

func attributes(c rbac.Call) *authorizationv1.ResourceAttributes {
	resource, sub, _ := strings.Cut(c.Resource, "/")
	return &authorizationv1.ResourceAttributes{Verb: c.Verb, Group: c.Group, Resource: resource, Subresource: sub, Namespace: c.Namespace, Name: c.Name}
}

func text(c rbac.Call) string {
	resource := schema.GroupResource{Group: c.Group, Resource: c.Resource}.String()
	words := []string{c.Verb, resource, c.Name}
	if c.Namespace != "" {
		words = append(words, "in "+c.Namespace)
	}
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}
