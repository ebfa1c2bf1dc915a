// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/fake"

	"everynode.dev/everynode/internal/dialect/kruise"
)

// TestReplacedByOthers: an administrator, or a program that deploys, replaces the configuration of the webhooks and the definition by those of the
// manifests. How the API server reaches the webhooks is published again at once, not after the next interval.
func TestReplacedByOthers(t *testing.T) {
	for name, replace := range map[string]func(*testing.T, *Publisher){
		"a mutating configuration": func(t *testing.T, p *Publisher) {
			config := configurations()[0].(*admissionv1.MutatingWebhookConfiguration)
			if _, err := p.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().Update(t.Context(), config, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		},
		"a validating configuration": func(t *testing.T, p *Publisher) {
			clearValidating(t.Context(), t, p)
		},
		"the definition": func(t *testing.T, p *Publisher) {
			if _, err := p.Dynamic.Resource(kruise.Definitions()).Update(t.Context(), owned(), metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, _, _ := started(t)
				before := published(t, p)
				replace(t, p)
				synctest.Wait()
				if got := published(t, p); got != before {
					t.Errorf("got\n%s\nwant\n%s", got, before)
				}
			})
		})
	}
}

// TestRepairsAreLimited: a program that writes the same field after every repair does not make the manager write without end.
func TestRepairsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, client, ctx := started(t)
		client.ClearActions()
		for range 600 { // a minute
			clearValidating(ctx, t, p)
			time.Sleep(interval / 600)
		}
		writes := 0
		for _, action := range client.Actions() {
			if action.GetVerb() == "update" && action.GetResource().Resource == "validatingwebhookconfigurations" {
				writes++
			}
		}
		writes -= 600
		// One more is that of the interval.
		if most := repairs + int(interval/restore) + 1; writes < repairs || writes > most {
			t.Errorf("%d repairs in a minute, want %d to %d", writes, repairs, most)
		}
	})
}

func owned() *unstructured.Unstructured {
	return crd(map[string]any{"everynode.dev/part-of": "everynode"})
}

// started returns a publisher that runs until the test ends, and has published everything.
func started(t *testing.T) (*Publisher, *fake.Clientset, context.Context) {
	t.Helper()
	p, client, _ := publisher(configurations(), owned())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- p.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	time.Sleep(2 * interval)
	synctest.Wait()
	if got := published(t, p); strings.Contains(got, "nowhere\nnowhere") {
		t.Fatalf("nothing is published: %s", got)
	}
	return p, client, ctx
}

func clearValidating(ctx context.Context, t *testing.T, p *Publisher) {
	t.Helper()
	config := configurations()[1].(*admissionv1.ValidatingWebhookConfiguration)
	if _, err := p.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Update(ctx, config, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}
