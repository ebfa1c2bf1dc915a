// SPDX-License-Identifier: Apache-2.0

package planetest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/localplane"
)

// TestWebhooks starts a plane three times in one directory: without a manager, with one whose webhooks are reached through a
// Service, and with two whose webhooks are reached under URLs. A start returns only once the webhooks answer.
func TestWebhooks(t *testing.T) {
	o := options(t)
	plane, client := start(t, o)
	throughLoopback(t, client)
	stop(t, plane)

	o.Dialects = []string{"kruise"}
	t.Run("service", func(t *testing.T) {
		const address = "127.0.0.1:443"
		if l, err := net.Listen("tcp", address); err != nil {
			t.Skipf("SKIPPED: a Service that leads to this machine leads to port 443, on which nothing can listen here (%v): run as root, with the port free", err)
		} else if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		t.Setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1") // a manager that is in a cluster
		o := o
		o.Manager.Args = []string{"--webhook-url=", "--webhook-bind-address=" + address}
		plane, client := start(t, o)
		config := webhook(t, client)
		if config.URL != nil || config.Service == nil || len(config.CABundle) == 0 {
			t.Errorf("the webhook is reached by %+v", config)
		}
		stop(t, plane)
	})

	o.Manager.Count = 2
	plane, client = start(t, o)
	before := webhook(t, client)
	if before.URL == nil || before.Service != nil {
		t.Fatalf("the webhook is reached by %+v", before)
	}
	sets, err := dynamic.NewForConfig(plane.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	for _, manager := range []string{"manager", "manager-2"} { // one of them leads, and is the one that is reached
		if err := plane.KillComponent(t.Context(), manager); err != nil {
			t.Fatal(err)
		}
		eventually(t, 40*time.Second, "webhooks answer although "+manager+" was killed", func() error { return dryRun(t.Context(), sets) })
		if err := plane.StartComponent(t.Context(), manager); err != nil {
			t.Fatal(err)
		}
	}
	if after := webhook(t, client); !bytes.Equal(after.CABundle, before.CABundle) {
		t.Error("the managers do not share a certificate")
	}
}

func stop(t *testing.T, plane *localplane.Plane) {
	t.Helper()
	if err := plane.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// throughLoopback lets the Service of the webhooks lead to this machine.
func throughLoopback(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	patch := []byte(fmt.Sprintf(`{"spec":{"type":%q,"externalName":"localhost","clusterIP":null,"clusterIPs":null,"ipFamilies":null,"ipFamilyPolicy":null,"internalTrafficPolicy":null}}`, v1.ServiceTypeExternalName))
	if _, err := client.CoreV1().Services(everynode.Namespace).Patch(t.Context(), "everynode-webhook", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func webhook(t *testing.T, client kubernetes.Interface) *admissionv1.WebhookClientConfig {
	t.Helper()
	config, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), "everynode-validating", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return &config.Webhooks[0].ClientConfig
}

// dryRun writes an Advanced DaemonSet in the version that has to be converted, without keeping it.
func dryRun(ctx context.Context, client dynamic.Interface) error {
	resource := schema.GroupVersionResource{Group: "apps.kruise.io", Version: "v1alpha1", Resource: "daemonsets"}
	labels := map[string]any{"app": "a"}
	_, err := client.Resource(resource).Namespace(namespace).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps.kruise.io/v1alpha1", "kind": "DaemonSet", "metadata": map[string]any{"name": "a"},
		"spec": map[string]any{
			"selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i"}}},
			},
		},
	}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}
