// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// nowhere is nothing published.
func nowhere(context.Context) ([][]byte, error) { return [][]byte{nil}, nil }

func TestKeeper(t *testing.T) {
	client := fake.NewClientset()
	keeper := &Keeper{Client: client, Namespace: "system", Secret: "certs", Names: names(), Published: nowhere}
	if _, err := keeper.Certificate(nil); err == nil {
		t.Error("a certificate before there is one")
	}
	if end, known := keeper.Ends(); known {
		t.Errorf("a certificate that is not there ends %s", end)
	}
	if bundle, err := keeper.Bundle(); bundle != nil || err != nil {
		t.Errorf("a bundle before there is one: %s, %v", bundle, err)
	}
	now := time.Now()
	if err := keeper.sync(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	writes := func() (n int) {
		for _, action := range client.Actions() {
			if action.GetVerb() != "get" {
				n++
			}
		}
		return n
	}
	other := &Keeper{Client: client, Namespace: "system", Secret: "certs", Names: names(), Published: nowhere}
	if err := other.sync(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	mine, err := keeper.Certificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := other.Certificate(nil)
	if err != nil || !bytes.Equal(mine.Certificate[0], theirs.Certificate[0]) || writes() != 1 {
		t.Errorf("two managers have two certificates, after %d writes: %v", writes(), err)
	}
	if end, known := keeper.Ends(); !known || end.Sub(now) < lifetime-backdated-time.Minute || end.Sub(now) > lifetime {
		t.Errorf("the certificate ends %s, %t", end, known)
	}
	// Renewal is written, and read by the other.
	if err := keeper.sync(t.Context(), now.Add(renewAfter)); err != nil || writes() != 2 {
		t.Errorf("%d writes after the renewal: %v", writes(), err)
	}
	if err := other.sync(t.Context(), now.Add(time.Minute)); err != nil || writes() != 2 {
		t.Errorf("%d writes after the renewal was read: %v", writes(), err)
	}
	if bundle, _ := other.Bundle(); count(t, bundle) != 2 {
		t.Errorf("the other manager does not know the next authority")
	}
}

// TestKeeperThatMayNotWrite: a policy that refuses to renew the certificate does not keep a manager that has just started from serving the one that is there.
func TestKeeperThatMayNotWrite(t *testing.T) {
	client := fake.NewClientset()
	now := time.Now()
	first := &Keeper{Client: client, Namespace: "system", Secret: "certs", Names: names(), Published: nowhere}
	if err := first.sync(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	client.PrependReactor("update", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "certs", errors.New("no"))
	})
	next := &Keeper{Client: client, Namespace: "system", Secret: "certs", Names: names(), Published: nowhere}
	if err := next.sync(t.Context(), now.Add(renewAfter)); !apierrors.IsForbidden(err) {
		t.Errorf("the error is lost: %v", err)
	}
	before, err := first.Certificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	if after, err := next.Certificate(nil); err != nil || !bytes.Equal(before.Certificate[0], after.Certificate[0]) {
		t.Errorf("the next manager serves nothing, or something else: %v", err)
	}
	if bundle, _ := next.Bundle(); count(t, bundle) != 1 {
		t.Error("the authority of the certificate is not published")
	}
	if err := next.sync(t.Context(), now.Add(lifetime)); !apierrors.IsForbidden(err) {
		t.Errorf("with a certificate that has ended: %v", err)
	}
}

// TestKeeperFaster shows that a manager takes over what another one wrote in the meantime.
func TestKeeperFaster(t *testing.T) {
	client := fake.NewClientset()
	winner := &Keeper{Client: client, Namespace: "system", Secret: "certs", Names: names(), Published: nowhere}
	loser := &Keeper{Client: client, Namespace: "system", Secret: "certs", Names: names(), Published: nowhere}
	if err := winner.sync(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	late := true // the loser has looked before the winner wrote
	client.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		if late {
			late = false
			return true, nil, apierrors.NewNotFound(corev1.Resource("secrets"), "certs")
		}
		return false, nil, nil
	})
	if err := loser.sync(t.Context(), time.Now()); !apierrors.IsAlreadyExists(err) {
		t.Fatalf("got %v", err)
	}
	if err := loser.sync(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	a, _ := winner.Certificate(nil)
	b, _ := loser.Certificate(nil)
	if !bytes.Equal(a.Certificate[0], b.Certificate[0]) {
		t.Error("two managers have two certificates")
	}
}

func crd(labels map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "daemonsets.apps.kruise.io", "labels": labels},
		"spec":     map[string]any{"group": "apps.kruise.io"},
	}}
}

func publisher(objects []runtime.Object, definition *unstructured.Unstructured) (*Publisher, *fake.Clientset, *dynamicfake.FakeDynamicClient) {
	client := fake.NewClientset(objects...)
	resource := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	dynamicClient := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{resource: "CustomResourceDefinitionList"}, definition)
	port := int32(443)
	return &Publisher{
		Client: client, Dynamic: dynamicClient, Bundle: func() ([]byte, error) { return []byte("bundle"), nil },
		Service:  &admissionv1.ServiceReference{Namespace: "system", Name: "webhook", Port: &port},
		Mutating: "mutating", Validating: "validating", Paths: map[string]string{"m.kb.io": "/m", "v.kb.io": "/v"},
		CRDs: []string{"daemonsets.apps.kruise.io"}, ConversionPath: "/convert",
	}, client, dynamicClient
}

func configurations() []runtime.Object {
	return []runtime.Object{
		&admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "mutating"},
			Webhooks: []admissionv1.MutatingWebhook{{Name: "m.kb.io"}, {Name: "somebody.else"}}},
		&admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "validating"},
			Webhooks: []admissionv1.ValidatingWebhook{{Name: "v.kb.io"}}},
	}
}

// published is what the API server was told, in one line each.
func published(t *testing.T, p *Publisher) string {
	t.Helper()
	mutating, err := p.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), "mutating", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	validating, err := p.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), "validating", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	resource := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	definition, err := p.Dynamic.Resource(resource).Get(t.Context(), "daemonsets.apps.kruise.io", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	conversion, _, _ := unstructured.NestedMap(definition.Object, "spec", "conversion")
	show := func(c admissionv1.WebhookClientConfig) string {
		switch {
		case c.URL != nil:
			return *c.URL + " " + string(c.CABundle)
		case c.Service != nil:
			return fmt.Sprintf("%s.%s:%d%s %s", c.Service.Name, c.Service.Namespace, *c.Service.Port, *c.Service.Path, c.CABundle)
		default:
			return "nowhere"
		}
	}
	return strings.Join([]string{
		show(mutating.Webhooks[0].ClientConfig), show(mutating.Webhooks[1].ClientConfig), show(validating.Webhooks[0].ClientConfig),
		fmt.Sprint(conversion),
	}, "\n")
}

func TestPublisher(t *testing.T) {
	p, client, dynamicClient := publisher(configurations(), crd(map[string]any{"everynode.dev/part-of": "everynode"}))
	if err := p.sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := `webhook.system:443/m bundle
nowhere
webhook.system:443/v bundle
map[strategy:Webhook webhook:map[clientConfig:map[caBundle:YnVuZGxl service:map[name:webhook namespace:system path:/convert port:443]] conversionReviewVersions:[v1]]]`
	if got := published(t, p); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	client.ClearActions()
	dynamicClient.ClearActions()
	if err := p.sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, action := range append(client.Actions(), dynamicClient.Actions()...) {
		if action.GetVerb() != "get" {
			t.Errorf("nothing changed, and yet: %v", action)
		}
	}
	p.Service, p.URL = nil, "https://127.0.0.1:9443/"
	p.Bundle = func() ([]byte, error) { return []byte{}, nil }
	if err := p.sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	want = `https://127.0.0.1:9443/m 
nowhere
https://127.0.0.1:9443/v 
map[strategy:Webhook webhook:map[clientConfig:map[url:https://127.0.0.1:9443/convert] conversionReviewVersions:[v1]]]`
	if got := published(t, p); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestPublished shows that what is published is read where the API server reads it.
func TestPublished(t *testing.T) {
	p, client, _ := publisher(configurations(), crd(map[string]any{"everynode.dev/part-of": "everynode"}))
	read := func() string {
		t.Helper()
		bundles, err := p.Published(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return string(bytes.Join(bundles, []byte(",")))
	}
	if got := read(); got != ",," {
		t.Errorf("before anything is published: %q", got)
	}
	if err := p.sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := read(); got != "bundle,bundle,bundle" {
		t.Errorf("published: %q", got)
	}
	p.Bundle = func() ([]byte, error) { return []byte("newer"), nil }
	client.PrependReactor("update", "validatingwebhookconfigurations", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("no")
	})
	if err := p.sync(t.Context()); err == nil {
		t.Error("no error")
	}
	if got := read(); got != "newer,bundle,newer" {
		t.Errorf("published in part: %q", got)
	}
}

func TestPublisherRefuses(t *testing.T) {
	p, _, _ := publisher(nil, crd(nil))
	err := p.sync(t.Context())
	for _, want := range []string{
		"mutatingwebhookconfiguration mutating does not exist: apply the manifests of Everynode",
		"validatingwebhookconfiguration validating does not exist: apply the manifests of Everynode",
		"customresourcedefinition daemonsets.apps.kruise.io is not Everynode's: it has no label everynode.dev/part-of: everynode, or it is OpenKruise's",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	p.Bundle = func() ([]byte, error) { return nil, nil }
	if err := p.sync(t.Context()); !errors.As(err, &notYet{}) {
		t.Errorf("without a certificate: %v", err)
	}
}

// TestAppliedOver: OpenKruise's definition keeps Everynode's label where it was applied over Everynode's. Its conversion is not changed.
func TestAppliedOver(t *testing.T) {
	theirs := crd(map[string]any{"everynode.dev/part-of": "everynode"})
	theirs.Object["spec"].(map[string]any)["versions"] = []any{map[string]any{"name": "v1alpha1", "schema": map[string]any{
		"openAPIV3Schema": map[string]any{"description": "DaemonSet is the Schema for the daemonsets API"},
	}}}
	p, _, dynamicClient := publisher(configurations(), theirs)
	if err := p.sync(t.Context()); err == nil || !strings.Contains(err.Error(), "is not Everynode's") {
		t.Errorf("got %v", err)
	}
	for _, action := range dynamicClient.Actions() {
		if action.GetVerb() != "get" {
			t.Errorf("the definition is written: %v", action)
		}
	}
}

// TestPublisherConflict shows that somebody who was faster is read again at once.
func TestPublisherConflict(t *testing.T) {
	p, client, _ := publisher(configurations(), crd(map[string]any{"everynode.dev/part-of": "everynode"}))
	conflicts := 2
	client.PrependReactor("update", "validatingwebhookconfigurations", func(clienttesting.Action) (bool, runtime.Object, error) {
		if conflicts--; conflicts < 0 {
			return false, nil, nil
		}
		return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "validatingwebhookconfigurations"}, "validating", errors.New("faster"))
	})
	if err := p.sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := published(t, p); !strings.Contains(got, "webhook.system:443/v bundle") {
		t.Errorf("got %s", got)
	}
}
