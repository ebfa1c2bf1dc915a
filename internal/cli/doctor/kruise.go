// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	kruiseapi "everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/cli/installed"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/view"
	"everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/internal/dialects"
)

// Names of the webhook objects of the dialect kruise, as in config/kruise.
const (
	mutating   = "everynode-mutating"
	validating = "everynode-validating"
	service    = "everynode-webhook"
	secret     = "everynode-webhook-certs"
)

// applyKruise is the remedy for missing objects of the dialect kruise.
const applyKruise = "apply what the dialect needs (config/kruise, or the chart), or leave kruise out of --dialects"

// takeOver is the remedy for CRDs of another project.
const takeOver = "leave kruise out of --dialects, or adopt the CRDs with: kubectl everynode adopt"

func (p *installation) definitions(ctx context.Context) []Finding {
	var findings []Finding
	var found []*unstructured.Unstructured
	for _, resource := range []string{kruiseapi.Resource, kruiseapi.ResourceJob, kruiseapi.ResourceNodeImage} {
		name := resource + "." + kruiseapi.Group
		crd, err := p.c.Dynamic.Resource(kruise.Definitions()).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err) && p.settings.serves(dialects.Kruise):
			findings = append(findings, failed(applyKruise, "the manager serves kruise, but there is no %s", name))
		case apierrors.IsNotFound(err):
		case err != nil:
			p.hidden = true
			findings = append(findings, unreadable(err, options.Request{Verb: "get", Resource: kruise.Definitions().GroupResource(), Name: name}))
		default:
			found = append(found, crd)
			own := kruise.OwnDefinition(crd)
			p.ours, p.foreign = p.ours || own, p.foreign || !own
		}
	}
	if p.forAgents(found) {
		return []Finding{ok("%s is served, for the agents; this cluster has no Advanced DaemonSets", found[0].GetName())}
	}
	for _, crd := range found {
		findings = append(findings, p.definition(crd))
	}
	if p.foreign && len(p.settings.dialects) > 1 { // the manager decides in the same way
		p.settings.dialects = slices.DeleteFunc(p.settings.dialects, func(name string) bool { return name == dialects.Kruise })
	}
	if len(findings) == 0 {
		return []Finding{ok("this cluster has no Advanced DaemonSets, and no manager serves them")}
	}
	return findings
}

// forAgents reports whether of the CRDs only the one that agents need is there: the chart installs agents also without the dialect kruise.
func (p *installation) forAgents(found []*unstructured.Unstructured) bool {
	return !p.hidden && !p.settings.serves(dialects.Kruise) && len(found) == 1 && found[0].GetName() == kruiseapi.ResourceNodeImage+"."+kruiseapi.Group &&
		kruise.OwnDefinition(found[0]) && kruise.ServedDefinition(found[0])
}

// definition checks one CRD.
func (p *installation) definition(crd *unstructured.Unstructured) Finding {
	name, served := crd.GetName(), p.settings.serves(dialects.Kruise)
	own := kruise.OwnDefinition(crd)
	stored, _, _ := unstructured.NestedStringSlice(crd.Object, "status", "storedVersions")
	switch {
	case !own && served && len(p.settings.dialects) == 1:
		return failed(takeOver, "%s is not Everynode's, so a manager that serves only kruise does not start", name)
	case !own && served:
		return warning(takeOver, "%s is not Everynode's, so the manager leaves kruise out", name)
	case !own && p.ours:
		return warning(takeOver, "%s is not Everynode's, but other CRDs of the dialect are: two controllers would reconcile it", name)
	case !own:
		return ok("%s is not Everynode's, and Everynode does not use it", name)
	case !kruise.ServedDefinition(crd):
		return failed("kubectl describe crd "+name, "%s is not served by the API server as %s", name, kruiseapi.VersionStored)
	case p.foreign:
		return warning(takeOver, "%s is Everynode's, but other CRDs of the dialect are not: until that changes, the manager does not serve kruise", name)
	case !served && p.present && p.settings.hidden == "":
		return warning("add kruise to --dialects", "%s is Everynode's, but no manager serves kruise: objects can neither be created nor changed", name)
	case len(stored) > 1:
		return ok("%s is served; objects may be stored as %s", name, strings.Join(stored, " and "))
	default:
		return ok("%s is served", name)
	}
}

func (p *installation) webhooks(ctx context.Context) []Finding {
	if !p.servesKruise() {
		return p.servedUnknown()
	}
	admission := p.c.Kubernetes.AdmissionregistrationV1()
	var findings []Finding
	m, err := admission.MutatingWebhookConfigurations().Get(ctx, mutating, metav1.GetOptions{})
	var defaulting, checking []admissionv1.WebhookClientConfig
	for i := range m.Webhooks {
		defaulting = append(defaulting, m.Webhooks[i].ClientConfig)
	}
	v, validatingErr := admission.ValidatingWebhookConfigurations().Get(ctx, validating, metav1.GetOptions{})
	if p.manager == nil && apierrors.IsNotFound(err) && apierrors.IsNotFound(validatingErr) {
		p.unhooked = true
		return []Finding{warning("if the manager serves kruise, apply what the dialect needs (config/kruise, or the chart)",
			"there are no webhooks of the dialect kruise, and it is not known whether the manager serves it: if it does, Advanced DaemonSets get no defaults and are not validated")}
	}
	findings = append(findings, p.configuration(hookKind{mutating, "mutatingwebhookconfigurations", "Advanced DaemonSets get no defaults"}, defaulting, err))
	for i := range v.Webhooks {
		checking = append(checking, v.Webhooks[i].ClientConfig)
	}
	findings = append(findings, p.configuration(hookKind{validating, "validatingwebhookconfigurations", "Advanced DaemonSets are not validated"}, checking, validatingErr))
	// Webhooks with a URL have no Service. The manager may not read endpoints: inside, an answer shows that there are some.
	byURL := slices.ContainsFunc(slices.Concat(defaulting, checking), func(c admissionv1.WebhookClientConfig) bool { return c.URL != nil })
	if !p.settings.outside && !byURL && !p.inside {
		findings = append(findings, p.endpoints(ctx))
	}
	return findings
}

// hookKind is a webhook configuration, and the consequence if it is missing.
type hookKind struct{ name, resource, without string }

// configuration checks the webhooks of one configuration.
func (p *installation) configuration(kind hookKind, webhooks []admissionv1.WebhookClientConfig, err error) Finding {
	name := kind.name
	bare := 0
	for i := range webhooks {
		if len(webhooks[i].CABundle) == 0 {
			bare++
		}
	}
	switch {
	case apierrors.IsNotFound(err):
		return failed(applyKruise, "there is no %s: %s", name, kind.without)
	case err != nil:
		return unreadable(err, options.Request{Verb: "get", Resource: schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: kind.resource}, Name: name})
	case bare > 0:
		return failed("find out why the leader does not publish its certificate: "+p.logs(),
			"%s lacks the certificate authority of %d of %s: the objects that they check can be neither created nor changed", name, bare, view.Plural(len(webhooks), "webhook"))
	default:
		return ok("%s has %s", name, view.Plural(len(webhooks), "webhook"))
	}
}

// endpoints checks whether the Service of the webhooks has endpoints.
func (p *installation) endpoints(ctx context.Context) Finding {
	list, err := p.c.Kubernetes.DiscoveryV1().EndpointSlices(p.namespace).List(ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=" + service})
	if err != nil {
		return unreadable(err, options.Request{Verb: "list", Resource: schema.GroupResource{Group: "discovery.k8s.io", Resource: "endpointslices"}, Namespace: p.namespace})
	}
	addresses := 0
	for i := range list.Items {
		for _, e := range list.Items[i].Endpoints {
			addresses += len(e.Addresses)
		}
	}
	if addresses == 0 {
		return failed(fmt.Sprintf("make sure that the Service %s/%s selects the pods of the manager", p.namespace, service), "the Service %s/%s has no endpoints: no webhook answers", p.namespace, service)
	}
	return ok("%s behind the Service %s/%s", view.Plural(addresses, "pod"), p.namespace, service)
}

// expiryWarning is the time before the end of a certificate from which a warning is shown. The manager renews its own
// certificates four months before.
const expiryWarning = 30 * 24 * time.Hour

func (p *installation) certificate(ctx context.Context) []Finding {
	switch {
	case !p.servesKruise():
		return p.servedUnknown()
	case p.unhooked:
		return nil
	}
	s, err := p.c.Kubernetes.CoreV1().Secrets(p.namespace).Get(ctx, secret, metav1.GetOptions{})
	switch {
	case err == nil:
		return []Finding{p.ends("the certificate of the webhooks", s.Data["tls.crt"])}
	case apierrors.IsNotFound(err) && p.manager != nil && installed.Flags(p.manager)["webhook-cert-dir"] != "":
		return []Finding{{Result: Skipped, Says: "the certificate of the webhooks is in a directory of the manager, and must be renewed there"}}
	case apierrors.IsNotFound(err):
		return []Finding{failed("find out why the leader creates none: "+p.logs(), "there is no secret %s/%s with the certificate of the webhooks", p.namespace, secret)}
	}
	// Few users may read secrets; users who may read the webhook configurations can check the end of the certificate
	// authority.
	configuration, configErr := p.c.Kubernetes.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, validating, metav1.GetOptions{})
	if configErr != nil || len(configuration.Webhooks) == 0 {
		return []Finding{unreadable(err, options.Request{Verb: "get", Resource: schema.GroupResource{Resource: "secrets"}, Namespace: p.namespace, Name: secret})}
	}
	return []Finding{p.ends("the certificate authority of the webhooks", configuration.Webhooks[0].ClientConfig.CABundle)}
}

// ends returns the finding about the end of a certificate; if there are several, about the last one.
func (p *installation) ends(what string, data []byte) Finding {
	do := "find out why the leader does not renew it: " + p.logs()
	certificates := parse(data)
	if len(certificates) == 0 {
		return failed(do, "%s cannot be read", what)
	}
	last := slices.MaxFunc(certificates, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
	end := last.NotAfter.UTC().Format(time.DateOnly)
	switch left := last.NotAfter.Sub(p.o.Now()); {
	case left <= 0:
		return failed(do, "%s expired on %s", what, end)
	case left < expiryWarning:
		return warning(do, "%s expires on %s and is overdue for renewal", what, end)
	default:
		return ok("%s expires on %s", what, end)
	}
}

func parse(data []byte) []*x509.Certificate {
	var certificates []*x509.Certificate
	for rest := bytes.TrimSpace(data); len(rest) > 0; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil
		}
		certificates = append(certificates, certificate)
	}
	return certificates
}
