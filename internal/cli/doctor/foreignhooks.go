// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/api/everynode"
	kruiseapi "everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/cli/options"
)

// hook is an admission webhook of another project.
type hook struct {
	resource, configuration, name string
	failurePolicy                 *admissionv1.FailurePolicyType
	client                        admissionv1.WebhookClientConfig
	rules                         []admissionv1.RuleWithOperations
	namespaces, objects           *metav1.LabelSelector
}

// object is a resource of which an installation or a rollout creates objects.
type object struct {
	schema.GroupResource
	namespaced bool
}

// created are the objects that an installation and every rollout create. No webhook is asked about the configuration of webhooks and of admission policies.
func (p *installation) created() []object {
	objects := []object{{schema.GroupResource{Resource: "pods"}, true}}
	for _, r := range p.installs() {
		if r.Verb == "create" && r.Group != admissionv1.GroupName {
			objects = append(objects, object{schema.GroupResource{Group: r.Group, Resource: r.Resource}, r.Namespace != ""})
		}
	}
	return append(objects, object{schema.GroupResource{Group: "apps", Resource: "replicasets"}, true}, object{schema.GroupResource{Group: "apps", Resource: "controllerrevisions"}, true})
}

// foreignHooks reports webhooks of other projects that keep Everynode from its work: those without a ready pod, without which the API server refuses objects,
// and those for Advanced DaemonSets, such as OpenKruise's.
func (p *installation) foreignHooks(ctx context.Context, f *forms) []Finding {
	hooks, unread := p.othersHooks(ctx)
	if unread != nil {
		f.unread = true
		return []Finding{*unread}
	}
	var findings []Finding
	for _, h := range hooks {
		if h.decides() {
			f.takeAdvanced()
		}
		if finding := p.foreignHook(ctx, &h); finding.Result != OK {
			findings = append(findings, finding)
		}
	}
	if len(findings) == 0 {
		return []Finding{ok("no webhook of another project is in the way")}
	}
	return findings
}

// foreignHook checks one webhook.
func (p *installation) foreignHook(ctx context.Context, h *hook) Finding {
	of := fmt.Sprintf("the webhook %s of %s %s", h.name, h.resource, h.configuration)
	if finding := p.unanswered(ctx, h, of); finding.Result != OK {
		return finding
	}
	if h.decides() {
		return warning("leave kruise out of the dialects, or remove the webhook when no manager of that project serves Advanced DaemonSets any more",
			"%s decides about Advanced DaemonSets", of)
	}
	return Finding{Result: OK}
}

// unanswered checks whether the API server refuses objects, because it must ask a webhook that has no ready pod.
func (p *installation) unanswered(ctx context.Context, h *hook, of string) Finding {
	service := h.client.Service
	about := slices.DeleteFunc(p.created(), func(o object) bool { return !h.sees(o) })
	if len(about) == 0 || h.failurePolicy != nil && *h.failurePolicy != admissionv1.Fail || service == nil {
		return Finding{Result: OK}
	}
	switch ready, unread := p.ready(ctx, service.Namespace, service.Name); {
	case unread != nil:
		return *unread
	case ready:
		return Finding{Result: OK}
	}
	if h.optsIn() {
		return warning("start the pods of that Service before a rollout with this label, and before you give the label to Everynode in values of the chart",
			"%s is not answered: the Service %s/%s has no ready pod, so the API server may refuse all %s with the label that it selects, which Everynode's do not have", of, service.Namespace, service.Name, about[0])
	}
	if i := slices.IndexFunc(about, func(o object) bool { return p.asked(ctx, h, o) }); i >= 0 {
		return failed(fmt.Sprintf("start the pods of that Service, or, if the project is not installed any more, kubectl delete %s %s", h.resource, h.configuration),
			"%s is not answered: the Service %s/%s has no ready pod, so the API server may refuse all %s", of, service.Namespace, service.Name, about[i])
	}
	return warning("start the pods of that Service before a rollout in these namespaces",
		"%s is not answered: the Service %s/%s has no ready pod, so the API server may refuse all %s in the namespaces that it selects, which are not Everynode's", of, service.Namespace, service.Name, about[0])
}

// asked reports whether the webhook selects such an object of the installation. It selects all without a namespace, except that a namespace is selected by its own labels.
// A namespace that does not exist yet has the label with its name; one that cannot be read is taken to be selected.
func (p *installation) asked(ctx context.Context, h *hook, about object) bool {
	isNamespace := about.GroupResource == schema.GroupResource{Resource: "namespaces"}
	selector, err := metav1.LabelSelectorAsSelector(h.namespaces)
	if err != nil || h.namespaces == nil || !about.namespaced && !isNamespace {
		return true
	}
	names := []string{p.namespace, p.agents}
	if isNamespace || about.Group == rbacv1.GroupName { // the chart has no other objects there
		names = append(names, kruiseapi.PullSecretNamespace)
	}
	return slices.ContainsFunc(names, func(name string) bool {
		set := labels.Set{corev1.LabelMetadataName: name}
		switch namespace, err := p.c.Kubernetes.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{}); {
		case err == nil:
			maps.Copy(set, namespace.Labels)
		case !apierrors.IsNotFound(err):
			return true
		}
		return selector.Matches(set)
	})
}

// optsIn reports whether the webhook is asked only about objects with a label that those of the installation do not have. They may have each label of the domain
// kubernetes.io and of Everynode, and each without a domain, as helm gives its Secrets.
func (h *hook) optsIn() bool {
	selector, err := metav1.LabelSelectorAsSelector(h.objects)
	if err != nil || h.objects == nil {
		return false
	}
	requirements, _ := selector.Requirements()
	return slices.ContainsFunc(requirements, func(r labels.Requirement) bool {
		domain, _, has := strings.Cut(r.Key(), "/")
		own := !has || domain == everynode.Domain || domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io")
		return !own && !r.Matches(labels.Set{})
	})
}

// sees reports whether the webhook may be asked when such an object is created, if its selectors select it. Its conditions are not evaluated.
func (h *hook) sees(about object) bool {
	has := func(list []string, name string) bool {
		return slices.Contains(list, name) || slices.Contains(list, "*")
	}
	scope := admissionv1.ClusterScope
	if about.namespaced {
		scope = admissionv1.NamespacedScope
	}
	return slices.ContainsFunc(h.rules, func(r admissionv1.RuleWithOperations) bool {
		return (r.Scope == nil || *r.Scope == admissionv1.AllScopes || *r.Scope == scope) && has(r.APIGroups, about.Group) && (has(r.Resources, about.Resource) || slices.Contains(r.Resources, "*/*")) &&
			(slices.Contains(r.Operations, admissionv1.Create) || slices.Contains(r.Operations, admissionv1.OperationAll))
	})
}

// decides reports whether the webhook is one for Advanced DaemonSets.
func (h *hook) decides() bool {
	return h.named(kruiseapi.Group) && h.sees(object{schema.GroupResource{Group: kruiseapi.Group, Resource: kruiseapi.Resource}, true})
}

// named reports whether a rule names the group: one for all groups is that of a policy engine or the like.
func (h *hook) named(group string) bool {
	return slices.ContainsFunc(h.rules, func(r admissionv1.RuleWithOperations) bool { return slices.Contains(r.APIGroups, group) })
}

// othersHooks returns the webhooks that are not Everynode's.
func (p *installation) othersHooks(ctx context.Context) (hooks []hook, unread *Finding) {
	const mutatingResource, validatingResource = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"
	admission := p.c.Kubernetes.AdmissionregistrationV1()
	refused := func(err error, resource string) ([]hook, *Finding) {
		f := unreadable(err, options.Request{Verb: "list", Resource: schema.GroupResource{Group: admissionv1.GroupName, Resource: resource}})
		return nil, &f
	}
	mutatingList, err := admission.MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{LabelSelector: "!" + everynode.PartOf})
	if err != nil {
		return refused(err, mutatingResource)
	}
	for _, c := range mutatingList.Items {
		for _, w := range c.Webhooks {
			hooks = append(hooks, hook{mutatingResource, c.Name, w.Name, w.FailurePolicy, w.ClientConfig, w.Rules, w.NamespaceSelector, w.ObjectSelector})
		}
	}
	validatingList, err := admission.ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{LabelSelector: "!" + everynode.PartOf})
	if err != nil {
		return refused(err, validatingResource)
	}
	for _, c := range validatingList.Items {
		for _, w := range c.Webhooks {
			hooks = append(hooks, hook{validatingResource, c.Name, w.Name, w.FailurePolicy, w.ClientConfig, w.Rules, w.NamespaceSelector, w.ObjectSelector})
		}
	}
	slices.SortFunc(hooks, func(a, b hook) int {
		return strings.Compare(a.resource+a.configuration+a.name, b.resource+b.configuration+b.name)
	})
	return hooks, nil
}

// ready reports whether a Service has an endpoint that is ready.
func (p *installation) ready(ctx context.Context, namespace, service string) (is bool, unread *Finding) {
	list, err := p.c.Kubernetes.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=" + service})
	if err != nil {
		f := unreadable(err, options.Request{Verb: "list", Resource: schema.GroupResource{Group: "discovery.k8s.io", Resource: "endpointslices"}, Namespace: namespace})
		return false, &f
	}
	for i := range list.Items {
		for _, e := range list.Items[i].Endpoints {
			if len(e.Addresses) > 0 && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
				return true, nil
			}
		}
	}
	return false, nil
}
