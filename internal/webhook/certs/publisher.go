// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	again "k8s.io/client-go/util/retry"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/dialect/kruise"
)

// Publisher configures the API server with the address of the webhooks and the authorities to trust.
type Publisher struct {
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	// Bundle returns the authorities to trust; nil if there is nothing to publish yet, and empty if the API server
	// trusts the certificate without it.
	Bundle func() ([]byte, error)
	// Service is the Service of the managers; nil if URL is set, which is the address of the leader.
	Service *admissionv1.ServiceReference
	URL     string
	// Mutating and Validating are the names of the webhook configurations; Paths are the paths of their webhooks by
	// name.
	Mutating, Validating string
	Paths                map[string]string
	// CRDs are the names of the CustomResourceDefinitions whose conversion webhook has the path ConversionPath.
	CRDs           []string
	ConversionPath string

	leading, published atomic.Bool
	// unreached is the last error of the URL; empty if there was none.
	unreached string
}

// Ready fails while this manager is the leader and has not yet published everything once.
func (p *Publisher) Ready(*http.Request) error {
	if p.leading.Load() && !p.published.Load() {
		return errors.New("the configuration of the webhooks has not been published yet")
	}
	return nil
}

// NeedLeaderElection is true: with a URL, the API server reaches one manager, which must be the one that publishes.
func (*Publisher) NeedLeaderElection() bool { return true }

// Start publishes the configuration, and keeps it up to date, until ctx ends.
func (p *Publisher) Start(ctx context.Context) error {
	p.leading.Store(true)
	repeat(ctx, p.watch(ctx), "The configuration of the webhooks could not be published", func() error {
		err := p.sync(ctx)
		if err != nil {
			return err
		}
		p.published.Store(true)
		p.report(ctx, p.callURL(ctx))
		return nil
	})
	return nil
}

func (p *Publisher) sync(ctx context.Context) error {
	bundle, err := p.Bundle()
	if err != nil {
		return err
	}
	if bundle == nil {
		return notYet{}
	}
	publish := func(do func() error) error { return again.RetryOnConflict(again.DefaultRetry, do) }
	errs := []error{
		publish(func() error { return p.mutating(ctx, bundle) }),
		publish(func() error { return p.validating(ctx, bundle) }),
	}
	for _, name := range p.CRDs {
		errs = append(errs, publish(func() error { return p.conversion(ctx, name, bundle) }))
	}
	return errors.Join(errs...)
}

// Published returns the published bundles, one for each webhook and each CustomResourceDefinition.
func (p *Publisher) Published(ctx context.Context) (bundles [][]byte, err error) {
	add := func(name string, config *admissionv1.WebhookClientConfig) {
		if _, ours := p.Paths[name]; ours {
			bundles = append(bundles, config.CABundle)
		}
	}
	mutating, err := p.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, p.Mutating, metav1.GetOptions{})
	if err != nil {
		return nil, explain(err, "mutatingwebhookconfiguration", p.Mutating)
	}
	for i := range mutating.Webhooks {
		add(mutating.Webhooks[i].Name, &mutating.Webhooks[i].ClientConfig)
	}
	validating, err := p.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, p.Validating, metav1.GetOptions{})
	if err != nil {
		return nil, explain(err, "validatingwebhookconfiguration", p.Validating)
	}
	for i := range validating.Webhooks {
		add(validating.Webhooks[i].Name, &validating.Webhooks[i].ClientConfig)
	}
	for _, name := range p.CRDs {
		crd, err := p.Dynamic.Resource(kruise.Definitions()).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, explain(err, "customresourcedefinition", name)
		}
		text, _, _ := unstructured.NestedString(crd.Object, "spec", "conversion", "webhook", "clientConfig", "caBundle")
		bundle, _ := base64.StdEncoding.DecodeString(text) // invalid base64 is an empty bundle
		bundles = append(bundles, bundle)
	}
	return bundles, nil
}

// clientConfig returns the client configuration of the webhook with that path.
func (p *Publisher) clientConfig(path string, bundle []byte) admissionv1.WebhookClientConfig {
	config := admissionv1.WebhookClientConfig{}
	if len(bundle) > 0 {
		config.CABundle = bundle
	}
	if p.Service == nil {
		url := strings.TrimSuffix(p.URL, "/") + path
		config.URL = &url
		return config
	}
	config.Service = p.Service.DeepCopy()
	config.Service.Path = &path
	return config
}

func (p *Publisher) mutating(ctx context.Context, bundle []byte) error {
	client := p.Client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	config, err := client.Get(ctx, p.Mutating, metav1.GetOptions{})
	if err != nil {
		return explain(err, "mutatingwebhookconfiguration", p.Mutating)
	}
	changed := false
	for i := range config.Webhooks {
		changed = p.set(config.Webhooks[i].Name, &config.Webhooks[i].ClientConfig, bundle) || changed
	}
	if changed {
		_, err = client.Update(ctx, config, metav1.UpdateOptions{})
	}
	return explain(err, "mutatingwebhookconfiguration", p.Mutating)
}

func (p *Publisher) validating(ctx context.Context, bundle []byte) error {
	client := p.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	config, err := client.Get(ctx, p.Validating, metav1.GetOptions{})
	if err != nil {
		return explain(err, "validatingwebhookconfiguration", p.Validating)
	}
	changed := false
	for i := range config.Webhooks {
		changed = p.set(config.Webhooks[i].Name, &config.Webhooks[i].ClientConfig, bundle) || changed
	}
	if changed {
		_, err = client.Update(ctx, config, metav1.UpdateOptions{})
	}
	return explain(err, "validatingwebhookconfiguration", p.Validating)
}

// set sets the client configuration of one of our webhooks, and reports whether it has changed.
func (p *Publisher) set(name string, config *admissionv1.WebhookClientConfig, bundle []byte) bool {
	path, ours := p.Paths[name]
	if !ours {
		return false
	}
	wanted := p.clientConfig(path, bundle)
	if reflect.DeepEqual(*config, wanted) {
		return false
	}
	*config = wanted
	return true
}

// conversion sets the conversion of a CustomResourceDefinition. The manifest does not have this field, so applying it
// again does not revert it.
func (p *Publisher) conversion(ctx context.Context, name string, bundle []byte) error {
	client := p.Dynamic.Resource(kruise.Definitions())
	crd, err := client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return explain(err, "customresourcedefinition", name)
	}
	if !kruise.OwnDefinition(crd) {
		return fmt.Errorf("customresourcedefinition %s is not Everynode's: it has no label %s: %s, or it is OpenKruise's; its conversion is not changed "+
			"(apply Everynode's CRD over it when nothing else uses it any more)", name, everynode.PartOf, everynode.PartOfValue)
	}
	config := p.clientConfig(p.ConversionPath, bundle)
	clientConfig, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&config)
	if err != nil {
		return fmt.Errorf("encoding the client configuration of the webhooks: %w", err)
	}
	wanted := map[string]any{"strategy": "Webhook", "webhook": map[string]any{
		"conversionReviewVersions": []any{"v1"}, "clientConfig": clientConfig,
	}}
	if found, _, _ := unstructured.NestedMap(crd.Object, "spec", "conversion"); reflect.DeepEqual(found, wanted) {
		return nil
	}
	if err := unstructured.SetNestedMap(crd.Object, wanted, "spec", "conversion"); err != nil {
		return fmt.Errorf("customresourcedefinition %s: %w", name, err)
	}
	_, err = client.Update(ctx, crd, metav1.UpdateOptions{})
	return explain(err, "customresourcedefinition", name)
}

// explain adds the object to an error.
func explain(err error, kind, name string) error {
	switch {
	case err == nil || apierrors.IsConflict(err): // conflict: read again
		return err
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s %s does not exist: apply the manifests of Everynode", kind, name)
	default:
		return fmt.Errorf("publishing in %s %s: %w", kind, name, err)
	}
}
